"""The dashboards as code; `make docs` writes what Grafana loads to deploy/grafana/dashboards."""

from headgate_dashboards.groups import GROUPS
from headgate_dashboards.jobs import JOBS
from headgate_dashboards.kafka import KAFKA
from headgate_dashboards.overview import OVERVIEW
from headgate_dashboards.producers import PRODUCERS
from headgate_dashboards.redis import REDIS
from headgate_dashboards.topics import TOPICS

BOARDS = (OVERVIEW, PRODUCERS, TOPICS, GROUPS, REDIS, KAFKA, JOBS)
