"""Loading of bundles, and translating, completing and parsing with them, with torch alone."""
