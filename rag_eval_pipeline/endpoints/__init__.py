"""HTTP to RAG servers and judges: one client with limits, retries and accounts, and the chat-completions protocol."""
