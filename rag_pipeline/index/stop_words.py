"""Words of a query that say nothing about what it looks for.

They stay in the index, so that a query of nothing else still finds its words; a query that holds any other word is
scored without them. Only closed classes: articles, pronouns, prepositions, conjunctions, auxiliaries and what asks a
question, but no negations, which are part of flags and of what people look for. In documentation "how do I" is rarer
than the word that matters, so that BM25 would rank by it.
"""

from __future__ import annotations

_WORDS = {
    "english": """
        a an the this that these those
        i me my mine myself we us our ours you your yours he him his she her hers it its they them their theirs
        what which who whom whose when where why how
        am is are was were be been being do does did doing done have has had having can could may might must shall should
        will would
        and or but if then than as so because while until
        of in on at by for from to with without into onto about between through during against under over
        there here just too also very any some such
        s t ll re ve don doesn didn isn aren wasn weren won wouldn couldn shouldn hasn haven hadn
    """,
}

STOP_WORDS: dict[str, frozenset[str]] = {language: frozenset(words.split()) for language, words in _WORDS.items()}
"""By language; a language that is missing has none."""
