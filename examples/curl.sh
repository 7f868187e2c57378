#!/bin/sh
# OpenAI's API with curl: the models, a chat, and the headers that say where it went.
set -eu
url="${CGN_URL:-http://127.0.0.1:8080}"
key="${CGN_API_KEY:-unused}"

models=$(curl -fsS "$url/v1/models" -H "Authorization: Bearer $key")
model="${CGN_MODEL:-$(printf '%s' "$models" | sed 's/.*"data":\[{"id":"\([^"]*\)".*/\1/')}"
echo "model: $model"

curl -fsS -D - "$url/v1/chat/completions" \
  -H "Authorization: Bearer $key" \
  -H 'Content-Type: application/json' \
  -d "{\"model\": \"$model\", \"max_tokens\": 32, \"messages\": [{\"role\": \"user\", \"content\": \"Name a colour.\"}]}"
echo
