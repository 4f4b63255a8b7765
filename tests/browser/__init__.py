"""The pages in a real Chromium, served by a real uvicorn, fed by a real Redis."""
