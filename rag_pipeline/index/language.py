"""Which language a corpus is written in, so that its stemmer need not be named.

A text is of the language whose function words it holds most of (Grefenstette: Comparing two language identification
schemes, JADT 1995, found this as good as character trigrams for texts of more than fifteen words). A corpus is judged by
a sample of its texts: those whose hashes are the least. Which texts that are depends on nothing but the texts, and a
change of a small part of them changes a small part of the sample.
"""

from __future__ import annotations

import heapq
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping

from rag_pipeline.index.function_words import FUNCTION_WORDS, STEMMED_LANGUAGES

SAMPLED_TEXTS = 256
"""A share of one half is known from so many texts to within .03 (one standard deviation)."""
TAKES_OVER = 2
"""How many times the share of the language chosen last another one needs to replace it. Samples of one corpus do not
differ so much."""

_CHARACTERS_READ = 2000
_LEAST_HITS = 3
_LEAST_DIFFERENT = 2
_LEAST_COVERAGE = 0.05
"""Function words in a text of a language: about a third of English ones, a tenth of Turkish or Finnish ones."""
_LEAST_KNOWN = 0.1
_MOST_ACCENTED = 0.02
_LEAST_UNTOLD = 500
"""Words without the function words of any language that are held against the language chosen last: prose of a language
that is known tells it in a tenth of them."""

_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\U00020000-\U000323af]+"
)
"""Scripts whose words the analyzer cuts into pairs of characters: no stemmer sees them."""
# What follows a dot, a slash or the like is part of a name or an address: the "com" of one is no Portuguese.
_WORD = re.compile(
    "(?<![\\w./@:\\\\-])[^\\W\\d_](?:[^\\W\\d_]|[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0dff\u200c'])*"
)

_LANGUAGES_OF = {
    word: [language for language, words in FUNCTION_WORDS.items() if word in words]
    for word in frozenset().union(*FUNCTION_WORDS.values())
}


class LanguageSample:
    """The texts with the least hashes among those that are offered. Equal texts count once."""

    def __init__(self, size: int = SAMPLED_TEXTS) -> None:
        self._size = size
        self._heap: list[tuple[int, str]] = []
        self._texts: dict[str, str] = {}

    def offer(self, digest: str, text: str) -> None:
        """Take a text into the sample if its hash, in hexadecimal digits, is among the least so far."""
        if digest in self._texts:
            return
        entry = (-int(digest, 16), digest)
        if len(self._heap) < self._size:
            heapq.heappush(self._heap, entry)
        else:
            _, dropped = heapq.heappushpop(self._heap, entry)
            if dropped == digest:
                return
            del self._texts[dropped]
        self._texts[digest] = text

    def items(self) -> list[tuple[str, str]]:
        """Hashes, ascending, and their texts."""
        return sorted(self._texts.items())

    def texts(self) -> list[str]:
        return [text for _, text in self.items()]


def corpus_language(texts: Iterable[str], before: str | None = None) -> str:
    """The language to stem a corpus by, a name of `LexicalConfig.language`.

    Args:
        texts: a sample. Of each the beginning is read.
        before: the language chosen last. It stays as long as it is plausible, since another one rebuilds the index.

    Returns:
        The language that most of the text is written in, however little that is: the stemmer of another language harms
        little and helps where its language is. "none" where most is in languages without a stemmer. English where
        nothing can be told and nearly all is ASCII: names, code, or too little text. A little text that tells nothing
        leaves it at ``before``.
    """
    shares = language_shares(texts, before)
    best = max(sorted(shares), key=lambda language: shares[language])
    chosen_before = max((share for language, share in shares.items() if _stemmed_as(language) == before), default=0.0)
    if before is not None and shares[best] < TAKES_OVER * chosen_before:
        return before
    return _stemmed_as(best)


def language_shares(texts: Iterable[str], before: str | None = None) -> Mapping[str, float]:
    """How much of the words of some texts is of each language. "none" is one that is not known. Sums to 1.

    Texts that tell nothing by themselves, since they are short, are looked at together. What is not told then counts
    only where hardly any text tells its language: for the language of ``before`` while it is little, such as what remains
    of a small corpus.
    """
    weights: Counter[str] = Counter()
    short: Counter[str] = Counter()
    for text in texts:
        words = _words(text)
        language = _language_of(words)
        if language is None:
            short.update(words)
        else:
            weights[language] += words.total()
    language = _language_of(short)
    if language is not None:
        weights[language] += short.total()
    elif weights.total() <= _LEAST_KNOWN * short.total():
        accented = sum(count for word, count in short.items() if not word.isascii())
        guess = "english" if accented <= _MOST_ACCENTED * short.total() else "none"
        weights[before if before is not None and short.total() < _LEAST_UNTOLD else guess] += max(short.total(), 1)
    total = weights.total()
    return {language: weight / total for language, weight in weights.items()}


def _stemmed_as(language: str) -> str:
    return language if language in STEMMED_LANGUAGES else "none"


def _words(text: str) -> Counter[str]:
    folded = unicodedata.normalize("NFKC", text[:_CHARACTERS_READ]).casefold()
    return Counter(_WORD.findall(_UNSPACED.sub(" ", folded)))


def _language_of(words: Counter[str]) -> str | None:
    """The language whose function words are most among these; None when they are too few to tell."""
    scores: Counter[str] = Counter()
    different: Counter[str] = Counter()
    for word, count in words.items():
        for language in _LANGUAGES_OF.get(word, ()):
            scores[language] += count
            different[language] += len(word) > 1  # variables and lists have names of one letter
    if not scores:
        return None
    best = max(sorted(scores), key=lambda language: scores[language])
    enough = scores[best] >= max(_LEAST_HITS, _LEAST_COVERAGE * words.total()) and different[best] >= _LEAST_DIFFERENT
    return best if enough else None
