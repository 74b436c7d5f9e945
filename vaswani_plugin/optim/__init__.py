"""Adam and the learning-rate schedule of section 5.3."""

from vaswani_plugin import register

register()
