/** The page before its script has drawn anything: a frame that is there at the first paint. */
export const PAGE_HTML = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>cgn</title>
<link rel="stylesheet" href="/page/style.css">
<link rel="icon" href="/page/icon.svg">
<link rel="modulepreload" href="/page/main.js">
<link rel="modulepreload" href="/page/lib/preact.js">
<script src="/page/lib/uplot.js" defer></script>
<script src="/page/main.js" type="module"></script>
</head>
<body>
<div id="app"><header class="top"><strong class="brand">cgn</strong></header><main><p class="soft">Asking the router …</p></main></div>
<noscript>This page is drawn by a script of this server. Without it: cgn top, cgn status, cgn explain.</noscript>
</body>
</html>
`;

/** A bar that is partly filled: a prefix that is cached. */
export const PAGE_ICON = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#1f5fd0"/><rect x="6" y="8" width="20" height="4" rx="2" fill="#fff"/><rect x="6" y="14" width="14" height="4" rx="2" fill="#fff"/><rect x="6" y="20" width="9" height="4" rx="2" fill="#9cc2ff"/></svg>
`;
