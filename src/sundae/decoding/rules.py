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
from sundae.decoding.annealed import Annealed
from sundae.decoding.confidence import Confidence
from sundae.decoding.drawing import Drawing
from sundae.decoding.entropy_bounded import EntropyBounded
from sundae.decoding.predictor_corrector import PredictorCorrector


def build_rule(config: SamplingConfig) -> Rule:
    """The rule that a sampling section describes; the paper's own wherever nothing newer is asked for."""
    final = None if config.final_temperature == -1 else config.final_temperature
    drawing = Drawing(config.temperature, final, top_k=config.top_k, top_p=config.top_p)
    match config.rule:
        case "argmax-unrolled":
            return ArgmaxUnrolled(config.uncertain_share)
        case "entropy-bounded":
            return EntropyBounded(drawing, bound=config.entropy_bound, stop_entropy=config.stop_entropy)
        case "confidence":
            return Confidence(drawing, choice_temperature=config.choice_temperature)
        case "predictor-corrector":
            return PredictorCorrector(drawing, renoise_share=config.renoise_share, doubt=config.renoise_doubt)
        case "low-temperature":
            schedules: dict[str, Schedule] = {
                "all": update_all,
                "share": update_share(config.share),
                "triangle": update_triangle,
            }
            schedule = schedules[config.schedule]
            return LowTemperature(drawing.temperature, schedule) if drawing.plain else Annealed(drawing, schedule)
