"""From a network and a corpus to a trained model: loss modules, optimiser, loop, checkpoints."""
