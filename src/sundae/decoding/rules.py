"""Step rules by name, as a configuration or a command line gives them."""

from sundae.config import SamplingConfig
from sundae.core.sampling import (
    ArgmaxUnrolled,
    LowTemperature,
    Rule,
    Schedule,
    update_all,
    update_share,
    update_triangle,
)


def build_rule(config: SamplingConfig) -> Rule:
    """The rule that a sampling section describes."""
    if config.rule == "argmax-unrolled":
        return ArgmaxUnrolled(config.uncertain_share)
    schedules: dict[str, Schedule] = {
        "all": update_all,
        "share": update_share(config.share),
        "triangle": update_triangle,
    }
    return LowTemperature(config.temperature, schedules[config.schedule])
