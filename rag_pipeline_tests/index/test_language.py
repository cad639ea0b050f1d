"""The language of a corpus is found in its own text, the same on every machine, and small changes do not turn it over."""

from __future__ import annotations

import random
import unicodedata
from string import ascii_letters

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.config import LexicalConfig
from rag_pipeline.hashing import text_hash
from rag_pipeline.index.analyzer import Analyzer
from rag_pipeline.index.function_words import FUNCTION_WORDS, STEMMED_LANGUAGES
from rag_pipeline.index.language import (
    _LANGUAGES_OF,
    LanguageSample,
    _language_of,
    _words,
    corpus_language,
    language_shares,
)


def text_language(text: str) -> str | None:
    return _language_of(_words(text))


SAMPLES = {
    "english": "The index is built once a day, and it is kept for as long as there is a reader that needs it.",
    "german": "Der Index wird einmal am Tag gebaut und bleibt, solange es einen Leser gibt, der ihn nicht freigibt.",
    "french": "Le tableau est dans la base, et les lignes qui ne sont pas lues sont effacées par une tâche avec un délai.",
    "spanish": "La tabla se guarda en el disco y no se borra, pero los datos que son más viejos se archivan por la noche.",
    "portuguese": "A tabela é guardada em um disco e não é apagada, mas os dados que são mais velhos vão para uma fita.",
    "italian": "La tabella è su un disco e non si cancella, ma i dati che sono più vecchi sono per una copia della base.",
    "dutch": "De tabel wordt op een schijf bewaard en niet gewist, maar het oudste deel is ook in een kopie.",
    "turkish": "Bu tablo her gün bir kez yapılır ve daha sonra okunur; ancak eski olan veriler için de çok az yer vardır.",
    "russian": "Таблица хранится на диске и не стирается, но данные, как и индекс, были бы в архиве для того, что старше.",
    "greek": "Ο πίνακας είναι στο δίσκο και δεν σβήνεται, με τα δεδομένα που είναι για την αναζήτηση από το σύστημα.",
    "arabic": "هذا الجدول على القرص في النظام ولا يمحى إلى أن يكون كل ما كان من البيانات مع الفهرس بعد ذلك",
    "persian": "این جدول در دیسک است و برای آن یک نسخه با داده ها از سال پیش هم می ماند که",
    "hindi": "यह तालिका डिस्क पर है और इस के लिए सूची भी है जो एक दिन में नहीं बनती है",
    "swedish": "Tabellen är på en disk och den raderas inte, men det som är äldre än ett år har också en kopia till dem.",
    "norwegian": "Tabellen er på en disk og den slettes ikke, men det som er eldre enn et år, har også en kopi fra noen år.",
    "finnish": "Taulu on levyllä ja se ei katoa, mutta vanhat tiedot ovat myös kopiossa, joka on niin suuri kuin taulu.",
    "hungarian": "A tábla egy lemezen van, és nem törlődik, de ha az adat már régi, meg is marad, mint a másolat.",
    "polish": "Tabela jest na dysku i nie jest kasowana, ale dane, które są stare, to także kopia dla tego, co było.",
    "czech": "Tabulka je na disku a není mazána, ale data, která jsou stará, se do kopie dostanou, pokud je to při ní.",
}
UNSTEMMED = {
    "ukrainian": "Таблиця зберігається на диску і не стирається, але її дані є та будуть для пошуку, що як і до того.",
    "vietnamese": "Bảng được lưu trên đĩa và không bị xóa, nhưng các dữ liệu cũ là của một bản sao để cho người đọc.",
    "hebrew": "הטבלה של המערכת היא על הדיסק ואם היא לא נמחקת, כל הנתונים של הטבלה הם גם עם העתק או בלי זה.",
}


@pytest.mark.parametrize(("language", "text"), [*SAMPLES.items(), *UNSTEMMED.items()])
def test_a_language_is_known_by_its_function_words(language: str, text: str) -> None:
    assert text_language(text) == language
    assert text_language(unicodedata.normalize("NFD", text)) == language
    if language != "turkish":  # the capitals of ı and i are not those of other languages
        assert text_language(text.upper()) == language


@pytest.mark.parametrize(("language", "text"), SAMPLES.items())
def test_a_corpus_is_stemmed_by_its_language(language: str, text: str) -> None:
    assert corpus_language([text] * 3) == language
    assert Analyzer(LexicalConfig(language=corpus_language([text]))).terms(text)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", UNSTEMMED.values())
def test_a_language_without_a_stemmer_is_not_stemmed_as_its_relative(text: str) -> None:
    assert corpus_language([text]) == "none"


def test_every_language_that_may_be_configured_can_be_found() -> None:
    configured = set(LexicalConfig.model_fields["language"].annotation.__args__)  # type: ignore[union-attr]
    assert configured - {"auto", "none"} == STEMMED_LANGUAGES


@pytest.mark.parametrize(("language", "words"), FUNCTION_WORDS.items())
def test_every_function_word_is_seen_in_text(language: str, words: frozenset[str]) -> None:
    assert text_language(" ".join(words)) == language
    assert all(language in _LANGUAGES_OF[word] for text in words for word in _words(text))


def test_auto_is_no_language_that_text_can_be_analysed_in() -> None:
    with pytest.raises(ValueError, match="resolved"):
        Analyzer(LexicalConfig())


@pytest.mark.parametrize("texts", [[], [""], ["这张表每天建立一次。"], ["x = [1, 2]\ny.z()"], ["4711 0815"], ["Page 3."]])
def test_where_nothing_can_be_told_names_and_code_are_taken_for_english(texts: list[str]) -> None:
    assert corpus_language(texts) == "english"
    assert corpus_language(texts, "german") == "german", "too little to turn a corpus over"
    assert (
        corpus_language([*texts, *(f"name{letter} = other{letter}" for letter in ascii_letters * 10)], "german") == "english"
    )


def test_what_remains_of_a_small_corpus_keeps_its_language_though_it_tells_none() -> None:
    prices = ["Grüße: Café Müller", "Öffnungszeiten: Mo–Fr 8–12 Uhr, Straßenbahnlinie fünf"]
    assert corpus_language(prices) == "none"
    assert corpus_language([SAMPLES["german"], *prices]) == "german"
    assert corpus_language(prices, before="german") == "german"
    assert corpus_language([*prices, SAMPLES["english"]], before="german") == "english", "told by more than a tenth"


def test_a_language_that_was_guessed_does_not_hold_against_one_that_is_told() -> None:
    assert corpus_language(["4711 0815", SAMPLES["german"]], before="english") == "german"


def test_a_script_and_accents_of_no_known_language_are_not_stemmed() -> None:
    assert corpus_language(["ღმერთსი შემვედრე ნუთუ კვლა დამხსნას სოფლისა შრომასა"]) == "none"


def test_short_texts_are_looked_at_together() -> None:
    words = SAMPLES["german"].split()
    assert [text_language(word) for word in words] == [None] * len(words)
    assert corpus_language(words) == "german"


def test_text_of_scripts_without_spaces_counts_for_no_language() -> None:
    assert corpus_language(["表在磁盘上，每天建立一次。" * 50, SAMPLES["german"]]) == "german"


def test_addresses_and_names_of_code_are_no_function_words() -> None:
    assert (
        text_language("https://a.com/os.html https://b.com/as https://c.com/no https://d.com/que os.path com.de.no") is None
    )


def test_the_language_of_most_of_the_text_is_chosen() -> None:
    texts = [SAMPLES["german"]] * 3 + [SAMPLES["english"]] * 2 + [SAMPLES["turkish"]] * 2
    assert corpus_language(texts) == "german"
    shares = language_shares(texts)
    assert max(shares, key=lambda name: shares[name]) == "german"
    assert sum(shares.values()) == pytest.approx(1)


def test_the_language_of_before_stays_until_another_has_twice_its_share() -> None:
    mixed = [SAMPLES["german"]] * 5 + [SAMPLES["english"]] * 3
    assert corpus_language(mixed, before=None) == "german"
    assert corpus_language(mixed, before="english") == "english"
    assert corpus_language(mixed, before="french") == "german"
    assert corpus_language([*mixed, *[SAMPLES["german"]] * 3], before="english") == "german"


def test_a_corpus_of_unstemmed_languages_stays_so_until_another_has_twice_their_share() -> None:
    mixed = [UNSTEMMED["ukrainian"]] * 3 + [SAMPLES["english"]] * 4
    assert corpus_language(mixed) == "english"
    assert corpus_language(mixed, before="none") == "none"


@given(st.lists(st.text(max_size=6), max_size=60), st.randoms(use_true_random=False), st.integers(1, 20))
def test_a_sample_depends_on_nothing_but_the_texts(texts: list[str], order: random.Random, size: int) -> None:
    one, other = LanguageSample(size), LanguageSample(size)
    for text in texts:
        one.offer(text_hash(text), text)
    shuffled = [*texts, *texts[:5]]
    order.shuffle(shuffled)
    for text in shuffled:
        other.offer(text_hash(text), text)
    least = sorted({text_hash(text): text for text in texts}.items())[:size]
    assert one.items() == other.items() == least


def test_a_change_of_a_small_part_of_the_texts_changes_a_small_part_of_the_sample() -> None:
    texts = [f"text {number}" for number in range(5000)]
    before, after = LanguageSample(), LanguageSample()
    for text in texts:
        before.offer(text_hash(text), text)
    for text in [*texts[50:], *(f"new {number}" for number in range(50))]:
        after.offer(text_hash(text), text)
    assert len(set(before.texts()) - set(after.texts())) < 20


@given(st.lists(st.text(max_size=80), max_size=4), st.sampled_from([None, "none", *sorted(STEMMED_LANGUAGES)]))
def test_every_answer_is_a_language_of_the_configuration(texts: list[str], before: str | None) -> None:
    found = corpus_language(texts, before)
    assert LexicalConfig.model_validate({"language": found}).language == found != "auto"
