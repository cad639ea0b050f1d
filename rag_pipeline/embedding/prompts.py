"""The instructions that the authors of embedding models ask to put before a text, by the model's name.

Only what a model card says for retrieval. A model that is not listed gets none: most want none, and a fine-tuned model
of another name may have been trained with others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_RELEVANT_PASSAGES = "Represent this sentence for searching relevant passages: "
_WEB_SEARCH = "Instruct: Given a web search query, retrieve relevant passages that answer the query"


@dataclass(frozen=True)
class _Family:
    """Models of one pair of prompts. ``names`` is a regular expression of their names in small letters."""

    names: str
    document_prompt: str
    query_prompt: str


_FAMILIES = (
    # https://huggingface.co/BAAI/bge-small-en-v1.5; Ollama's bge-large is bge-large-en-v1.5.
    _Family(r"bge-(small|base|large)-en|bge-large", "", _RELEVANT_PASSAGES),
    # https://huggingface.co/BAAI/bge-large-zh-v1.5
    _Family(r"bge-(small|base|large)-zh", "", "为这个句子生成表示以用于检索相关文章："),
    # https://huggingface.co/BAAI/bge-multilingual-gemma2
    _Family(
        r"bge-multilingual-gemma2",
        "",
        "<instruct>Given a web search query, retrieve relevant passages that answer the query.\n<query>",
    ),
    # https://huggingface.co/intfloat/e5-base-v2 and https://huggingface.co/intfloat/multilingual-e5-large
    _Family(r"(multilingual-)?e5-(small|base|large)", "passage: ", "query: "),
    # https://huggingface.co/intfloat/e5-mistral-7b-instruct and .../multilingual-e5-large-instruct
    _Family(r"e5-mistral-7b-instruct|multilingual-e5-large-instruct", "", f"{_WEB_SEARCH}\nQuery: "),
    # https://huggingface.co/nomic-ai/nomic-embed-text-v1.5, .../nomic-embed-text-v2-moe, .../modernbert-embed-base
    _Family(r"nomic-embed-text(-v2-moe)?|modernbert-embed-(base|large)", "search_document: ", "search_query: "),
    # https://huggingface.co/nomic-ai/nomic-embed-code
    _Family(r"nomic-embed-code", "", "Represent this query for searching relevant code: "),
    # https://huggingface.co/mixedbread-ai/mxbai-embed-large-v1
    _Family(r"mxbai-embed-large", "", _RELEVANT_PASSAGES),
    # https://huggingface.co/Snowflake/snowflake-arctic-embed-l-v2.0; Ollama names it snowflake-arctic-embed2.
    _Family(r"snowflake-arctic-embed-[ml]-v2\.0|snowflake-arctic-embed2", "", "query: "),
    # https://huggingface.co/Snowflake/snowflake-arctic-embed-m, .../snowflake-arctic-embed-m-v1.5
    _Family(r"snowflake-arctic-embed(-xs|-s|-m|-m-long|-l)?", "", _RELEVANT_PASSAGES),
    # https://huggingface.co/WhereIsAI/UAE-Large-V1
    _Family(r"uae-large", "", _RELEVANT_PASSAGES),
    # https://huggingface.co/google/embeddinggemma-300m
    _Family(r"embeddinggemma(-300m)?(-qat)?", "title: none | text: ", "task: search result | query: "),
    # https://huggingface.co/Qwen/Qwen3-Embedding-0.6B: no space behind the colon
    _Family(r"qwen3-embedding(-(0\.6|4|8)b)?", "", f"{_WEB_SEARCH}\nQuery:"),
    # https://huggingface.co/Alibaba-NLP/gte-Qwen2-7B-instruct
    _Family(r"gte-qwen(2|1\.5)(-(1\.5|7)b)?-instruct", "", f"{_WEB_SEARCH}\nQuery: "),
    # https://huggingface.co/Salesforce/SFR-Embedding-Mistral
    _Family(r"sfr-embedding-mistral", "", f"{_WEB_SEARCH}\nQuery: "),
    # https://huggingface.co/NovaSearch/stella_en_400M_v5: a full stop ends the instruction
    _Family(r"stella-en-(400m|1\.5b)", "", f"{_WEB_SEARCH}.\nQuery: "),
)

_OWNERS = r"(?:(?:baai|intfloat|nomic-ai|mixedbread-ai|snowflake|whereisai|google|qwen|alibaba-nlp|novasearch|fast)-)?"
"""Some converted models carry the first owner's name within their own: ``jeffh/intfloat-multilingual-e5-large``."""

_VARIANT = (
    r"(?:-(?:v\d(?:\.\d)?|unsupervised|doc|onnx|gguf|ggml|mlx|i?q\d?(?:_\w+)?|q4f16|b?f(?:p)?(?:16|32)|u?int8"
    r"|4bit|8bit|quantized))*"
)
"""What may follow a family's name and leaves its prompts as they are: a version, a file format, a precision."""

_KNOWN = tuple((re.compile(_OWNERS + f"(?:{family.names})" + _VARIANT), family) for family in _FAMILIES)


def documented_prompts(model: str) -> tuple[str, str]:
    """What the authors of a model ask to put before a document and before a query; two empty texts for none.

    Args:
        model: the model's name, with or without provider and organisation (``ollama/…``, ``BAAI/…``) and tag
            (``:latest``). Small and capital letters count alike.
    """
    name = re.split(r"/|\\|--", model.strip().rstrip("/\\"))[-1].split(":")[0].lower()
    variants = (name, name.replace("_", "-"))
    for pattern, family in _KNOWN:
        if any(pattern.fullmatch(variant) for variant in variants):
            return family.document_prompt, family.query_prompt
    return "", ""
