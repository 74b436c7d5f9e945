"""The HTTP service: LibreTranslate's interface, batches across requests, and a page. An extra."""
