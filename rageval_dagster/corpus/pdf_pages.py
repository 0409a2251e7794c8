"""The program that reads a PDF, in a process of its own: the file on standard input, its pages' texts out, as JSON.

Out comes a list of texts, or a string that says why there are none.
"""

import json
import sys


def main() -> None:
    from pypdfium2 import PdfDocument, PdfiumError
    from pypdfium2.raw import FPDF_ERR_PASSWORD, FPDF_ERR_SECURITY

    try:
        document = PdfDocument(sys.stdin.buffer.read())
        # pdfium writes \x02 for a hyphen that only the end of a line put into a word.
        found = [page.get_textpage().get_text_bounded().replace("\x02", "") for page in document]
    except PdfiumError as error:
        found = "is not a readable PDF"
        if error.err_code in (FPDF_ERR_PASSWORD, FPDF_ERR_SECURITY):
            found = "is an encrypted PDF: save it without a password"
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
