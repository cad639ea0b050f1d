from __future__ import annotations

import base64
import random
import subprocess
import sys
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.config import LexicalConfig
from rag_pipeline.index import analyzer as analyzer_module
from rag_pipeline.index.analyzer import MAX_TERM_LENGTH, Analyzer

ENGLISH = Analyzer(LexicalConfig(language="english"))
PLAIN = Analyzer(LexicalConfig(language="none"))
GERMAN = Analyzer(LexicalConfig(language="german"))
TURKISH = Analyzer(LexicalConfig(language="turkish"))

ANY_TEXT = st.text(max_size=60)
CODE_LIKE = st.text(st.sampled_from("aBc1_-.:/\\@&+#' \n\u2010ıİßé日本かタ한글ไทยहि\u0301\u00ad\u200b"), max_size=40)
TEXTS = st.one_of(ANY_TEXT, CODE_LIKE)


@given(st.lists(TEXTS, max_size=6))
def test_a_batch_gives_every_text_the_terms_that_it_has_as_a_query(texts: list[str]) -> None:
    assert ENGLISH.analyze(texts).to_pylist() == [ENGLISH.terms(text) for text in texts]


@given(st.lists(TEXTS, max_size=6))
def test_the_terms_of_lines_are_the_terms_of_the_text(lines: list[str]) -> None:
    assert ENGLISH.terms("\n".join(lines)) == [term for line in lines for term in ENGLISH.terms(line)]


@given(TEXTS)
def test_terms_are_neither_empty_nor_too_long_nor_white_space(text: str) -> None:
    for term in ENGLISH.terms(text * 5):
        assert 0 < len(term) <= MAX_TERM_LENGTH
        assert not any(character.isspace() for character in term)


def test_texts_that_span_several_batches_are_analyzed_as_if_alone() -> None:
    texts = [f"word{number} über-all " * 40_000 for number in range(6)]
    assert sum(map(len, texts)) > 2 * analyzer_module._CHARACTERS_PER_BATCH
    result = ENGLISH.analyze(texts)
    assert len(result) == 6
    for text, terms in zip(texts, result.to_pylist(), strict=True):
        assert terms == ENGLISH.terms(text)


def test_arrow_arrays_of_any_string_type_slice_and_chunking_are_taken() -> None:
    assert PLAIN.analyze(pa.array(["x", None, "y z"])[1:]).to_pylist() == [[], ["y", "z"]]
    assert PLAIN.analyze(pa.array(["y z"], pa.large_string())).to_pylist() == [["y", "z"]]
    assert PLAIN.analyze(pa.chunked_array([["a"], ["b"]])).to_pylist() == [["a"], ["b"]]
    assert PLAIN.analyze(pa.array([], pa.string())).to_pylist() == []


@pytest.mark.parametrize("text", ["", " \n", "+-+ # . -- _", "—!?", "\ud800", "\u0301"])
def test_text_without_letters_and_digits_has_no_terms(text: str) -> None:
    assert [term for term in ENGLISH.terms(text) if term != "?"] == []


def test_words_are_stemmed_by_the_language_and_kept_without_one() -> None:
    assert ENGLISH.terms("Configuring configured configures") == ["configur"] * 3
    assert PLAIN.terms("Configuring configured") == ["configuring", "configured"]
    assert GERMAN.terms("Häuser Haus") == ["haus", "haus"]
    assert Analyzer(LexicalConfig(language="russian")).terms("столица столицы") == ["столиц", "столиц"]
    assert len(set(Analyzer(LexicalConfig(language="hindi")).terms("लड़का लड़के"))) == 1


def test_every_language_of_the_configuration_has_a_stemmer() -> None:
    for language in set(LexicalConfig.model_fields["language"].annotation.__args__) - {"auto"}:  # type: ignore[union-attr]
        assert Analyzer(LexicalConfig(language=language)).terms("xyz")


def test_words_that_say_little_are_kept() -> None:
    assert ENGLISH.terms("to be or not to be") == ["to", "be", "or", "not", "to", "be"]


@pytest.mark.parametrize(
    "spellings",
    [
        ["café", "cafe\u0301", "CAFÉ", "ｃａｆé"],
        ["Zürich", "Zu\u0308rich", "ZÜRICH"],
        ["USB", "ＵＳＢ", "usb"],
        ["Straße", "STRASSE", "strasse", "STRAẞE"],
        ["İstanbul", "istanbul", "ISTANBUL", "I\u0307STANBUL", "ıstanbul"],
        ["ΟΔΟΣ", "οδος", "οδοσ"],
        ["ﬁne", "fine", "FINE"],
        ["co\u00adoperate", "cooperate"],
        ["か\u3099く", "がく"],
        ["한글", unicodedata.normalize("NFD", "한글")],
        ["کتاب\u200cها", "کتابها"],
    ],
)
@pytest.mark.parametrize("language", ["none", "english", "german"])
def test_spellings_of_one_word_meet(spellings: list[str], language: str) -> None:
    analyzer = Analyzer(LexicalConfig(language=language))  # type: ignore[arg-type]
    wanted = analyzer.terms(spellings[0])
    assert wanted
    for spelling in spellings[1:]:
        assert analyzer.terms(spelling) == wanted


def test_half_width_katakana_meets_full_width() -> None:
    assert PLAIN.terms("ﾃﾞｰﾀ") == PLAIN.terms("データ") == ["デー", "ータ"]


@given(TEXTS)
def test_normalising_a_text_before_changes_nothing(text: str) -> None:
    assert ENGLISH.terms(unicodedata.normalize("NFKC", text)) == ENGLISH.terms(text)


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x24F), max_size=40))
def test_composed_and_decomposed_latin_text_have_the_same_terms(text: str) -> None:
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert ENGLISH.terms(composed) == ENGLISH.terms(decomposed)


def test_all_spellings_of_a_turkish_name_meet_when_stemmed_as_turkish() -> None:
    assert len(set(TURKISH.terms("İstanbul istanbul ISTANBUL I\u0307STANBUL İstanbul'da"))) == 2


def test_turkish_case_is_stemmed_as_turkish_and_then_meets_plain_spelling() -> None:
    assert TURKISH.terms("IRMAKLARI ırmakları Irmak irmak") == ["irmak"] * 4


def test_marks_belong_to_their_word_in_scripts_that_write_vowels_as_marks() -> None:
    assert PLAIN.terms("हिन्दी में लिखा") == ["हिन्दी", "में", "लिखा"]
    assert PLAIN.terms("தமிழ் மொழி") == ["தமிழ்", "மொழி"]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("日本語", ["日", "日本", "本", "本語", "語"]),
        ("食べる", ["食", "食べ", "べる"]),
        ("テキスト", ["テキ", "キス", "スト"]),
        ("한국어", ["한국", "국어"]),
        ("ภาษา", ["ภา", "าษ", "ษา"]),
        ("ພາສາ", ["ພາ", "າສ", "ສາ"]),
        ("ភាសា", ["ភា", "ាស", "សា"]),
        ("猫", ["猫"]),
        ("か", ["か"]),
        ("使用Python3编程", ["使", "使用", "用", "python3", "python", "编", "编程", "程"]),
        ("中文한글", ["中", "中文", "文", "한글"]),
        ("中。文", ["中", "文"]),
        ("運行--where", ["運", "運行", "行", "--where", "where"]),
        ("𠀀𠀁", ["𠀀", "𠀀𠀁", "𠀁"]),
    ],
)
def test_scripts_without_spaces_become_pairs_of_characters(text: str, terms: list[str]) -> None:
    assert PLAIN.terms(text) == terms


@given(st.text(st.sampled_from("日本語猫黒中文字"), min_size=1, max_size=12), st.data())
def test_any_substring_of_han_text_is_found(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    assert set(PLAIN.terms(text[start:end])) <= set(PLAIN.terms(text))


@pytest.mark.parametrize(
    ("name", "terms"),
    [
        ("get_user_name", ["get_user_name", "get", "user", "name"]),
        ("getUserName", ["getusername", "get", "user", "name"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("getHTTPResponse", ["gethttpresponse", "get", "http", "response"]),
        ("URLs", ["urls"]),
        ("get-user-name", ["get-user-name", "get", "user", "name"]),
        ("e-mail", ["email", "e", "mail"]),
        ("IL-6", ["il6", "il", "6"]),
        ("node.js", ["node.js", "node", "js"]),
        ("src/index/bm25.py", ["src/index/bm25.py", "src", "index", "bm25.py", "bm25", "py"]),
        ("Windows\\System32", ["windows\\system32", "windows", "system32", "system"]),
        ("1.2.3", ["1.2.3", "1", "2", "3"]),
        ("v1.2.3", ["v1.2.3", "1.2.3", "v1", "2", "3"]),
        ("1.2.3-rc1", ["1.2.3-rc1", "1.2.3", "1", "2", "3rc1", "3", "rc1"]),
        ("v3.11.0b4", ["v3.11.0b4", "3.11.0b4", "3.11.0", "v3", "11", "0b4"]),
        ("E0308", ["e0308", "0308"]),
        ("ERR_CONNECTION_REFUSED", ["err_connection_refused", "err", "connection", "refused"]),
        ("CVE-2024-12345", ["cve-2024-12345", "cve", "2024", "12345"]),
        ("ORA-00942", ["ora00942", "ora", "00942"]),
        ("0x80070005", ["0x80070005", "80070005"]),
        ("HTTP/1.1", ["http/1.1", "http", "1.1", "1", "1"]),
        ("10.0.0.1:8080", ["10.0.0.1:8080", "10.0.0.1", "10", "0", "0", "1", "8080"]),
        ("ModuleNotFoundError", ["modulenotfounderror", "module", "not", "found", "error"]),
        ("SCREAMING_CASE", ["screaming_case", "screaming", "case"]),
        ("--where", ["--where", "where"]),
        ("sha256", ["sha256", "sha", "256"]),
        ("--dry-run", ["--dry-run", "dryrun", "dry", "run"]),
        ("-Path", ["-path", "path"]),
        (".NET", [".net", "net"]),
        (".gitignore", [".gitignore", "gitignore"]),
        ("ASP.NET", ["asp.net", "asp", "net"]),
        ("C++", ["c++"]),
        ("C#", ["c#"]),
        ("C++17", ["c++17", "c++", "17"]),
        ("notepad++", ["notepad++", "notepad"]),
        ("std::vector", ["std::vector", "std", "vector"]),
        ("__init__", ["__init__", "init"]),
        ("user@example.org", ["user@example.org", "user", "example.org", "example", "org"]),
        ("R&D", ["r&d", "r", "d"]),
        ("naïveApproach", ["naïveapproach", "naïve", "approach"]),
    ],
)
def test_a_name_is_found_as_a_whole_and_by_its_parts(name: str, terms: list[str]) -> None:
    assert PLAIN.terms(name) == terms
    assert PLAIN.terms(f"({name}), `{name}`; {name}.") == terms * 3


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The end. Next", ["the", "end", "next"]),
        ("and/or, well-", ["and/or", "and", "or", "well"]),
        ("## C# ##", ["c#"]),
        ("a + b - c", ["a", "b", "c"]),
        ("1+1=2", ["1", "1", "2"]),
        ("#hashtag @name $HOME", ["hashtag", "name", "home"]),
        ("wait...what", ["wait", "what"]),
        ("**bold** [link](x)", ["bold", "link", "x"]),
        ("dash—dash–dash", ["dash", "dash", "dash"]),
        ("key: value", ["key", "value"]),
        ("'quoted' don't", ["quoted", "don", "t"]),
    ],
)
def test_punctuation_of_prose_is_no_part_of_a_name(text: str, terms: list[str]) -> None:
    assert PLAIN.terms(text) == terms


@pytest.mark.parametrize("query", ["a AND (b OR -c)", 'title:"x"~2', "a* ?b {c} [d TO e]", "\\", "^2", '"unclosed'])
def test_no_character_of_a_query_is_syntax(query: str) -> None:
    letters = {term for term in PLAIN.terms(query) if term.isalnum()}
    assert letters <= {"a", "and", "b", "or", "c", "title", "x", "2", "d", "to", "e", "unclosed"}


def test_encoded_data_leaves_no_more_than_one_term_a_line() -> None:
    data = random.Random(7).randbytes(30_000)
    for blob in (base64.b64encode(data).decode(), base64.encodebytes(data).decode(), data.hex()):
        assert len(PLAIN.terms(blob)) < len(blob) / 20
    assert PLAIN.terms("550e8400-e29b-41d4-a716-446655440000")[:2] == ["550e8400-e29b-41d4-a716-446655440000", "550e8400"]
    assert "little" in PLAIN.terms("convertUtf8ToUtf16LittleEndian")
    assert PLAIN.terms("x" * (MAX_TERM_LENGTH + 1) + " y") == ["y"]
    assert PLAIN.terms("x" * MAX_TERM_LENGTH) == ["x" * MAX_TERM_LENGTH]


def test_a_long_name_is_found_by_its_parts() -> None:
    name = "InternalFrameTitlePaneMaximizeButtonWindowNotFocusedStateTitlePaneOfTheWindow"
    assert len(name) > MAX_TERM_LENGTH
    assert "maximize" in PLAIN.terms(name)


def test_what_is_remembered_of_tokens_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyzer_module, "_CACHED_TOKENS", 100)
    analyzer = Analyzer(LexicalConfig(language="english"))
    for start in range(0, 1000, 50):
        text = " ".join(f"word{number}" for number in range(start, start + 50))
        assert analyzer.terms(text) == ENGLISH.terms(text)
        assert len(analyzer._expansions) <= 100


def test_threads_share_an_analyzer() -> None:
    analyzer = Analyzer(LexicalConfig(language="english"))
    texts = [" ".join(f"running{number % 97} jumped{number % 89}s" for number in range(i, i + 50)) for i in range(200)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(analyzer.terms, texts)) == [ENGLISH.terms(text) for text in texts]


def test_importing_the_module_does_not_load_the_stemmer() -> None:
    code = "import sys, rag_pipeline.index.analyzer; sys.exit('Stemmer' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_query_is_scored_without_stop_words_unless_it_holds_nothing_else() -> None:
    analyzer = Analyzer(LexicalConfig(language="english"))
    assert analyzer.query_terms("how do I add a corpus?") == analyzer.terms("add corpus")
    assert analyzer.query_terms("to be or not to be") == analyzer.terms("not")
    assert analyzer.query_terms("the who") == analyzer.terms("the who")
    assert analyzer.query_terms("--no-cache") == analyzer.terms("--no-cache")


@pytest.mark.parametrize(
    ("language", "query", "telling"),
    [
        ("german", "Wie kann ich einen Korpus hinzufügen?", "Korpus hinzufügen"),
        ("french", "comment est-ce que je peux ajouter un corpus ?", "ajouter corpus"),
        ("russian", "Как я могу добавить корпус?", "добавить корпус"),
        ("turkish", "bir derlemi nasıl eklerim ve bu neden gerekli?", "derlemi eklerim gerekli"),
    ],
)
def test_languages_have_stop_words_of_their_own(language: str, query: str, telling: str) -> None:
    analyzer = Analyzer(LexicalConfig(language=language))  # type: ignore[arg-type]
    assert analyzer.query_terms(query) == analyzer.terms(telling)


def test_negations_are_no_stop_words() -> None:
    for language, word in (
        ("english", "not"),
        ("german", "nicht"),
        ("french", "pas"),
        ("russian", "не"),
        ("turkish", "değil"),
    ):
        analyzer = Analyzer(LexicalConfig(language=language))  # type: ignore[arg-type]
        assert analyzer.query_terms(f"{word} x1") == analyzer.terms(f"{word} x1")


def test_stop_words_stay_in_the_index() -> None:
    assert "the" in Analyzer(LexicalConfig(language="english")).terms("the who")


def test_a_language_without_a_list_has_no_stop_words() -> None:
    analyzer = Analyzer(LexicalConfig(language="none"))
    assert analyzer.query_terms("how do I") == ["how", "do", "i"]


@pytest.mark.parametrize(
    "name", ["New-Item", "get_user", "getUser", "src/app.py", "--where", " `C++17` ", "v1.2.3", "e-mail"]
)
def test_a_name_is_known_as_one(name: str) -> None:
    assert ENGLISH.is_name(name)


@pytest.mark.parametrize("text", ["item", "new item", "get_user and set_user", "部署流程", "การติดตั้ง", "42", "", "!?"])
def test_words_and_sentences_are_no_names(text: str) -> None:
    assert not ENGLISH.is_name(text)
