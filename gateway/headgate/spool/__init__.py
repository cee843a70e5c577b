"""The spool: events that Kafka does not take in time lie on disk until it does.

journal    the file: chunks of events, one transaction for all that came together
carve      what can be read of a damaged file; salvage takes it over
backlog    what of one lane lies on disk, and where each part of it is
spool      in front of the lanes: which events go to them, and which to disk
writing    group commit, on a thread of its own
draining   back to Kafka, in order for each lane, at a limited rate
"""
