"""The spool: it stores events on disk while Kafka does not take them in time.

database   tables and errors of the SQLite file, and the format of its chunks
journal    writes and reads of chunks, with one transaction for each group of events
reading    contents of a file, for a start and for `headgate spool`
carve      chunks of a damaged file, read without SQLite
folders    a journal's folder with its lock, and the folders of earlier configurations
disk       the journal on a thread of its own, and its state
backlog    spooled events of each lane, and the place of each part
spool      lanes or disk: the path of each event
draining   group commit to disk, and the way back to Kafka, at a limited rate
service    tasks, start and end of a spool
"""
