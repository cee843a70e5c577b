"""The way of an event: the stages that `wiring.pipeline.build_pipeline` puts together, in order."""
