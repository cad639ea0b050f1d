"""Office documents under a password: opened by msoffcrypto-tool with a password that a hook gives."""

from __future__ import annotations

import io

from rag_pipeline.errors import MissingExtraError, ParseError
from rag_pipeline.parsing.hooks import Hooks
from rag_pipeline.parsing.reasons import NO_PASSWORD_FITS, PASSWORD_OFFICE, first_line


def decrypted(data: bytes, path: str, hooks: Hooks) -> bytes:
    """The document that a container of an encrypted one holds.

    Raises:
        ParseError: there is no hook for passwords, or none of its passwords fits.
    """
    passwords = hooks.passwords_for(path)
    if not passwords:
        raise ParseError(PASSWORD_OFFICE)
    try:
        from msoffcrypto import OfficeFile
        from msoffcrypto.exceptions import DecryptionError, FileFormatError, InvalidKeyError
        from msoffcrypto.exceptions import ParseError as BadContainer
    except ImportError:
        raise MissingExtraError("msoffcrypto-tool", "passwords", "Opening Office documents with a password") from None
    for password in passwords:
        opened = io.BytesIO()
        try:
            document = OfficeFile(io.BytesIO(data))
            document.load_key(password=password)
            document.decrypt(opened)
        except (InvalidKeyError, DecryptionError):
            continue
        except (FileFormatError, BadContainer, OSError) as error:
            raise ParseError(f"damaged password-protected Office document: {first_line(error)}") from error
        return opened.getvalue()
    raise ParseError(NO_PASSWORD_FITS)
