#!/usr/bin/env bash
# Makes sure that there is a Chromium to render with, and fonts for the scripts of the world.
# Order: a browser that is there; the distribution's packages, where we may install; Playwright's own installer.
# Without Noto, CJK, Hindi and emoji print as boxes, and their characters vanish from the text of the PDF.
set -euo pipefail

# libatomic1: of the Node.js that drives the browser; a minimal system has none. libnss3-tools: certutil, for `ca_file`.
PACKAGES="chromium-headless-shell libatomic1 libnss3-tools fonts-liberation fonts-noto-core fonts-noto-cjk fonts-noto-color-emoji fontconfig"

found() { rag-eval doctor --only browser >/dev/null 2>&1; }
fonts() { command -v fc-list >/dev/null && [ -n "$(fc-list :lang=zh)" ] && [ -n "$(fc-list :lang=hi)" ]; }

if found && fonts; then exit 0; fi

if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    echo "Installing Chromium's headless shell and the Noto fonts (about 200 MB) ..."
    export DEBIAN_FRONTEND=noninteractive
    log=$(mktemp)
    if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends $PACKAGES; } >"$log" 2>&1; then
        # Older distributions have no headless shell of their own; the full browser renders the same at three times the cost.
        apt-get install -y -qq --no-install-recommends ${PACKAGES/chromium-headless-shell/chromium} >>"$log" 2>&1 || tail -n 5 "$log" >&2
    fi
    rm -f "$log"
fi

if ! found; then
    echo "Installing Playwright's Chromium headless shell ..."
    playwright install --only-shell chromium
fi

if ! found; then
    echo "No Chromium was found or could be installed. Install chromium-headless-shell, chromium or Google Chrome, or set RAG_EVAL_CHROMIUM to one." >&2
    exit 1
fi
fonts || echo "Fonts for CJK or Devanagari are missing: install fonts-noto-core, fonts-noto-cjk and fonts-noto-color-emoji, or such texts print as boxes." >&2
