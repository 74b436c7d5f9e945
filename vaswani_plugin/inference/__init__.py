"""From a bundle to a model that searches, with torch alone."""
