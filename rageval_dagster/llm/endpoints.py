"""Where each role's model is: its name, its address and its key."""

from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from pydantic import SecretStr

from rageval_dagster.errors import SettingsError
from rageval_dagster.identity import digest_json
from rageval_dagster.settings import Settings

Role = Literal["generator", "answer", "judge"]

DEFAULT_BASE_URL = "https://api.openai.com/v1"


@dataclass(frozen=True)
class Endpoint:
    """Where a role's model is. `host` is what messages name; the URL itself may hold a password."""

    model: str
    base_url: str = field(repr=False)
    api_key: SecretStr | None

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).netloc.rpartition("@")[2]

    @property
    def version(self) -> str:
        """Changes when another model, or the same one at another address, would answer."""
        return digest_json([self.model, self.base_url])


def endpoint_of(settings: Settings, role: Role) -> Endpoint | None:
    """The endpoint of a role; None where no model is set for it.

    Raises:
        SettingsError: a model is set, but neither a key nor an address, or nothing can be sent with them.
    """
    own = {name: getattr(settings, f"{role}_{name}") for name in ("model", "base_url", "api_key")}
    if own["model"] is None:
        return None
    named = f"RAGEVAL_{role.upper()}_MODEL"
    base_url, api_key = own["base_url"] or settings.openai_base_url, own["api_key"] or settings.openai_api_key
    if base_url is None and api_key is None:
        raise SettingsError(f"{named} has no endpoint: set OPENAI_API_KEY, or OPENAI_BASE_URL for a local one")
    endpoint = Endpoint(own["model"], base_url or DEFAULT_BASE_URL, api_key)
    where = f"{named}: OPENAI_BASE_URL or RAGEVAL_{role.upper()}_BASE_URL takes"
    try:
        parts = urlsplit(endpoint.base_url)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, is_address = None, False
    if parts is None or not is_address:
        raise SettingsError(f"{where} http(s)://host:port/v1, and what it has is no such address")
    if parts.path.rstrip("/").endswith("/chat/completions"):
        raise SettingsError(f"{where} the base URL, without /chat/completions")
    if api_key is not None and not (api_key.get_secret_value().isascii() and api_key.get_secret_value().isprintable()):
        raise SettingsError(
            f"{named}: OPENAI_API_KEY or RAGEVAL_{role.upper()}_API_KEY holds a character that no key has, such as a "
            "line break or a curly quotation mark: copy it again"
        )
    return endpoint


def same_model_warning(settings: Settings) -> str | None:
    """One line where the model that answers also judges, which flatters its answers; None where it does not.

    Panickssery et al. 2024 ("LLM Evaluators Recognize and Favor Their Own Generations") measured it.
    """
    # A model that is not used may have no endpoint.
    if settings.judge_model is None or settings.judge_model != settings.answer_model:
        return None
    judge, answerer = endpoint_of(settings, "judge"), endpoint_of(settings, "answer")
    if judge is None or answerer is None or judge.version != answerer.version:
        return None
    return (
        f"The judge model is the one that answers ({judge.model}): models favour what they wrote themselves; set "
        "another RAGEVAL_JUDGE_MODEL"
    )
