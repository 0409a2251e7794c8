"""What a run is asked to do, as configuration that all its assets share."""

import dagster as dg
from pydantic import Field

from rageval_dagster.benchmark.due import BenchmarkSpec
from rageval_dagster.evaluation.request import EvaluationRequest, make_request
from rageval_dagster.resources.settings import RunSettings


class EvaluationPlan(dg.ConfigurableResource):
    """The choices of one run; everything left empty is what its settings say."""

    settings: dg.ResourceDependency[RunSettings]

    trigger: str = Field(default="", description="What started the evaluation; empty: this run.")
    dataset_ids: list[int] = Field(
        default=[], description="Datasets to evaluate, as they are; empty: all current ones, renewed where that is due."
    )
    systems: list[str] = Field(default=[], description="Systems to evaluate, by name; empty: those of the settings.")
    k: int = Field(default=0, ge=0, description="The cutoff of the metrics; 0: EVALUATION_DEFAULT_K.")
    sample_size: int = Field(default=0, ge=0, description="Questions wanted; 0: as the settings say.")
    strategy: str = Field(default="", description="random, diverse or recent; empty: that of the current dataset.")
    styles: list[str] = Field(
        default=[], description="Who asks, and how, in turns; empty: as the dataset was asked for, else the settings."
    )
    dataset_name: str = Field(default="", description="The dataset to generate; empty: all generated ones.")
    renew: bool = Field(default=False, description="Make a new dataset even if the current one is recent.")
    renewal_left_out: bool = Field(
        default=False,
        description="The run leaves the benchmark's assets out, since nothing is due. Where its scan finds that "
        "something is, they are made before anything is evaluated.",
    )
    only_if_changed: bool = Field(default=False, description="End early if the scan finds no change.")

    def request(self, client_id: str) -> EvaluationRequest:
        return make_request(
            self.settings.read().for_client(client_id),
            client_id,
            trigger=self.settings.trigger,
            k=self.k or None,
            systems=self.systems,
            dataset_ids=self.dataset_ids,
        )

    def benchmark(self, client_id: str) -> BenchmarkSpec:
        return BenchmarkSpec.from_settings(
            self.settings.read().for_client(client_id),
            name=self.dataset_name,
            size=self.sample_size,
            strategy=self.strategy,
            styles=self.styles,
            always=self.renew,
            automatic=not self.dataset_ids,
        )
