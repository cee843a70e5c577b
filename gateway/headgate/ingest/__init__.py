"""The path of an event: the stages that `wiring.pipeline.build_pipeline` connects, in order."""
