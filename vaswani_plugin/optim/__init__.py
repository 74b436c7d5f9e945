"""Adam and the learning-rate schedule of section 5.3."""
