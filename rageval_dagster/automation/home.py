"""DAGSTER_HOME inside RAGEVAL_HOME: `python -m rageval_dagster.automation.home` makes it and prints where it is."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rageval_dagster.errors import SettingsError
from rageval_dagster.settings import (
    BROKER_VARIABLE,
    DAGSTER_DATABASE_VARIABLE,
    LAUNCHER_VARIABLE,
    Settings,
    load_settings,
)
from rageval_dagster.text import plural

if TYPE_CHECKING:
    import dagster as dg

DAGSTER_YAML = Path(__file__).with_name("dagster.yaml")
"""Of one machine: Dagster's own launcher and storage."""

LONGEST_RUN_S = 86_400
"""With workers, Dagster ends a run after this."""

_KEPT_S = 2 * LONGEST_RUN_S

_POSTGRES = f"""\
storage:
  # Dagster's own, but connections stay open.
  custom:
    module: rageval_dagster.automation.dagster_storage
    class: PooledPostgresStorage
    config:
      postgres_url:
        env: {DAGSTER_DATABASE_VARIABLE}
"""
_CELERY = f"""\
run_launcher:
  # Dagster's CeleryRunLauncher; a client's lease, not the broker, tells whether its run died.
  module: rageval_dagster.automation.celery_launcher
  class: LeasedRunLauncher
  config:
    broker:
      env: {BROKER_VARIABLE}
    backend: <backend>
    config_source:
      broker_transport_options:
        # Redis hands a message that was not taken for this long to another worker: longer than the longest run, or a
        # run would be started twice.
        visibility_timeout: {_KEPT_S}
      # How a run ended is known for as long.
      result_expires: {_KEPT_S}
      # A worker takes no run before it has a free process: Dagster's queue knows better who is next. RabbitMQ needs 1.
      worker_prefetch_multiplier: 1
      worker_disable_prefetch: true
      # When the broker restarts, wait a minute for it.
      task_publish_retry_policy:
        max_retries: 60
        interval_start: 1
        interval_step: 0
        interval_max: 1
      broker_connection_retry_on_startup: true
run_coordinator:
  module: dagster
  class: QueuedRunCoordinator
  config:
    # In the five seconds after which Dagster looks into its queue, workers do more runs than may go on at once.
    dequeue_interval_seconds: 1
# What a run prints is in its worker's log: copying it for Dagster takes four processes per run.
compute_logs:
  module: dagster._core.storage.noop_compute_log_manager
  class: NoOpComputeLogManager
"""
_K8S = """\
run_launcher:
  module: dagster_k8s
  class: K8sRunLauncher
  config:
    instance_config_map:
      env: DAGSTER_K8S_INSTANCE_CONFIG_MAP
    job_namespace:
      env: DAGSTER_K8S_PIPELINE_RUN_NAMESPACE
"""


def prepare_dagster_home(settings: Settings) -> Path:
    """Makes DAGSTER_HOME with its dagster.yaml, once, and points this process to it, telemetry off.

    A DAGSTER_HOME that is set already is the user's own and stays.

    Raises:
        SettingsError: a package that the settings need is not installed.
    """
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "yes")
    os.umask(0o077)  # what Dagster writes from now on is for its owner only
    for variable, secret in (
        (BROKER_VARIABLE, settings.broker_url),
        (DAGSTER_DATABASE_VARIABLE, settings.dagster_database_url),
    ):
        if secret is not None:  # which may stand in a file: dagster.yaml reads the environment only
            os.environ[variable] = secret.get_secret_value()
    if own := os.environ.get("DAGSTER_HOME"):
        return Path(own)
    if missing := missing_packages(settings):
        raise SettingsError(missing)
    settings.ensure_home()
    home = settings.dagster_home
    config = home / "dagster.yaml"
    if not config.exists():
        draft = home / f".dagster.yaml.{os.getpid()}"
        draft.write_text(dagster_yaml(settings), encoding="utf-8")
        draft.replace(config)
    os.environ["DAGSTER_HOME"] = str(home)
    return home


def instance_runs(settings: Settings) -> dict[str, int]:
    """How many runs of the instance have not ended, by status."""
    import dagster as dg

    from rageval_dagster.automation.dagster_internals import unfinished_runs

    prepare_dagster_home(settings)
    with dg.DagsterInstance.get() as instance:
        return unfinished_runs(instance.run_storage)


def loaded(defs: "dg.Definitions") -> str:
    """How many assets, jobs, schedules and sensors there are, once Dagster has resolved all of them; raises what it
    does."""
    import dagster as dg

    # Within an instance: Dagster looks into the one that a thread entered last, which may be gone.
    with dg.DagsterInstance.ephemeral():
        dg.Definitions.validate_loadable(defs)
        found = defs.get_repository_def()
    counts = {
        "asset": len(found.asset_graph.materializable_asset_keys),
        "job": len([job for job in found.get_all_jobs() if not job.name.startswith("__")]),
        "schedule": len(found.schedule_defs),
        "sensor": len(found.sensor_defs),
    }
    return ", ".join(plural(count, noun) for noun, count in counts.items())


def dagster_yaml(settings: Settings) -> str:
    """The dagster.yaml of these settings; secrets are named by their variables."""
    text = DAGSTER_YAML.read_text(encoding="utf-8")
    if settings.dagster_database_url is not None:
        text += _POSTGRES
    if settings.launcher == "k8s":
        text += _K8S
    if settings.launcher == "celery" and settings.broker_url is not None:
        # RabbitMQ keeps no results; its workers send them.
        of_redis = settings.broker_url.get_secret_value().startswith("redis")
        text += _CELERY.replace("<backend>", f"\n      env: {BROKER_VARIABLE}" if of_redis else "rpc://")
        # A worker that died is replaced meanwhile.
        limits = f"start_timeout_seconds: 600\n  max_runtime_seconds: {LONGEST_RUN_S}"
        text = text.replace("start_timeout_seconds: 180", limits)
    return text


def missing_packages(settings: Settings) -> str | None:
    """Which package the settings need that is not installed, and the command that installs it; None where none is."""
    wanted = {
        "dagster_celery": ("celery", f"{LAUNCHER_VARIABLE}=celery", settings.launcher == "celery"),
        "dagster_k8s": ("k8s", f"{LAUNCHER_VARIABLE}=k8s", settings.launcher == "k8s"),
        "dagster_postgres": ("postgres", DAGSTER_DATABASE_VARIABLE, settings.dagster_database_url is not None),
    }
    for module, (extra, setting, is_wanted) in wanted.items():
        if is_wanted and find_spec(module) is None:
            return f"{setting} needs the package {module.replace('_', '-')}: pip install 'rageval-dagster[{extra}]'"
    return None


def differences(file: Path, settings: Settings) -> list[str]:
    """The variables of the settings that a dagster.yaml does not follow.

    Raises:
        SettingsError: it cannot be read.
    """
    import yaml

    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f"{file} cannot be read as YAML ({type(error).__name__})") from None
    if not isinstance(found, dict):
        raise SettingsError(f"{file} is not a table of settings: delete it, and it is written again")
    launched_by = found.get("run_launcher") or {}  # the key alone is as good as none
    classes = {
        "default": {None, "DefaultRunLauncher"},
        "celery": {"LeasedRunLauncher", "CeleryRunLauncher"},
        "k8s": {"K8sRunLauncher"},
    }
    wrong = [LAUNCHER_VARIABLE] if launched_by.get("class") not in classes[settings.launcher] else []
    if settings.dagster_database_url is not None and not found.get("storage"):
        wrong.append(DAGSTER_DATABASE_VARIABLE)
    return wrong


if __name__ == "__main__":
    print(prepare_dagster_home(load_settings()))
