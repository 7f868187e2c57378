//! Event files, as `bench/event-file.ts` writes them: what engines published and what was asked, already decoded.
//!
//! A record: u32 operation (0 asked, 1 stored, 2 removed), u32 worker, u32 n, u32 whether a parent follows, u64 parent, then n
//! times: asked: u64 content; stored: u64 name, u64 content; removed: u64 name. All little endian.

/// One call to an index.
pub enum Event {
    /// The content hashes of a prompt's blocks.
    Asked(Vec<u64>),
    Stored { worker: u32, parent: Option<u64>, names: Vec<u64>, contents: Vec<u64> },
    Removed { worker: u32, names: Vec<u64> },
}

impl Event {
    pub fn blocks(&self) -> usize {
        match self {
            Event::Asked(contents) => contents.len(),
            Event::Stored { names, .. } | Event::Removed { names, .. } => names.len(),
        }
    }

    pub fn worker(&self) -> Option<u32> {
        match self {
            Event::Asked(_) => None,
            Event::Stored { worker, .. } | Event::Removed { worker, .. } => Some(*worker),
        }
    }
}

/// A phase of the run: its updates in order.
pub struct Phase {
    pub name: &'static str,
    pub updates: Vec<Event>,
}

pub struct Workload {
    pub phases: Vec<Phase>,
    pub prompts: Vec<Vec<u64>>,
    pub workers: u32,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn u32(&mut self) -> u32 {
        let value = u32::from_le_bytes(self.bytes[self.at..self.at + 4].try_into().unwrap());
        self.at += 4;
        value
    }

    fn u64(&mut self) -> u64 {
        let value = u64::from_le_bytes(self.bytes[self.at..self.at + 8].try_into().unwrap());
        self.at += 8;
        value
    }

    fn u64s(&mut self, n: usize) -> Vec<u64> {
        (0..n).map(|_| self.u64()).collect()
    }

    fn event(&mut self) -> Event {
        let (operation, worker, n) = (self.u32(), self.u32(), self.u32() as usize);
        let has_parent = self.u32() == 1;
        let parent = self.u64();
        match operation {
            0 => Event::Asked(self.u64s(n)),
            1 => {
                let (names, contents) = (0..n).map(|_| (self.u64(), self.u64())).unzip();
                Event::Stored { worker, parent: has_parent.then_some(parent), names, contents }
            }
            2 => Event::Removed { worker, names: self.u64s(n) },
            other => panic!("not an event file: operation {other} at byte {}", self.at),
        }
    }
}

/// With `mixed`, all updates are one phase in their order; else first all that store, then all that remove.
pub fn read(path: &str, mixed: bool) -> Workload {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("cannot read {path}: {error}"));
    let mut reader = Reader { bytes: &bytes, at: 0 };
    let (mut updates, mut prompts) = (Vec::new(), Vec::new());
    while reader.at < bytes.len() {
        match reader.event() {
            Event::Asked(contents) => prompts.push(contents),
            update => updates.push(update),
        }
    }
    let workers = updates.iter().filter_map(Event::worker).max().map_or(0, |last| last + 1);
    let phases = if mixed {
        vec![Phase { name: "mixed", updates }]
    } else {
        let (stored, removed) = updates.into_iter().partition(|event| matches!(event, Event::Stored { .. }));
        vec![Phase { name: "stored", updates: stored }, Phase { name: "removed", updates: removed }]
    };
    Workload { phases, prompts, workers }
}
