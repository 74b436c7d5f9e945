"""English names of languages by their ISO 639-1 codes, for `/languages`."""

NAMES = {
    **{"af": "Afrikaans", "ar": "Arabic", "az": "Azerbaijani", "be": "Belarusian"},
    **{"bg": "Bulgarian", "bn": "Bengali", "bs": "Bosnian", "ca": "Catalan", "cs": "Czech"},
    **{"cy": "Welsh", "da": "Danish", "de": "German", "el": "Greek", "en": "English"},
    **{"eo": "Esperanto", "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian"},
    **{"fi": "Finnish", "fr": "French", "ga": "Irish", "gl": "Galician", "gu": "Gujarati"},
    **{"he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "hy": "Armenian"},
    **{"id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese"},
    **{"ka": "Georgian", "kk": "Kazakh", "km": "Khmer", "kn": "Kannada", "ko": "Korean"},
    **{"ky": "Kyrgyz", "la": "Latin", "lo": "Lao", "lt": "Lithuanian", "lv": "Latvian"},
    **{"mk": "Macedonian", "ml": "Malayalam", "mn": "Mongolian", "mr": "Marathi", "ms": "Malay"},
    **{"my": "Burmese", "nb": "Norwegian Bokmål", "ne": "Nepali", "nl": "Dutch"},
    **{"nn": "Norwegian Nynorsk", "no": "Norwegian", "pa": "Punjabi", "pl": "Polish"},
    **{"pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "si": "Sinhala", "sk": "Slovak"},
    **{"sl": "Slovenian", "sq": "Albanian", "sr": "Serbian", "sv": "Swedish", "sw": "Swahili"},
    **{"ta": "Tamil", "te": "Telugu", "th": "Thai", "tl": "Tagalog", "tr": "Turkish"},
    **{"uk": "Ukrainian", "ur": "Urdu", "uz": "Uzbek", "vi": "Vietnamese", "zh": "Chinese"},
}


def language_name(code: str) -> str:
    """The English name of a language, or the code itself where it is not in the table."""
    return NAMES.get(code, code)
