"""All pages of the console, put together."""

from headgate.edge.console.audits import AuditPages
from headgate.edge.console.console import Console
from headgate.edge.console.figures import Plots, Recorded
from headgate.edge.console.groups import GroupPages, MonitorAnswers
from headgate.edge.console.installation import InstallationConsole
from headgate.edge.console.overview import OverviewPage
from headgate.edge.console.page import Act, Build
from headgate.edge.console.producers import ProducerPages
from headgate.edge.console.replays import ReplayConsole
from headgate.edge.console.topics import TopicPages
from headgate.edge.console.wizard import Wizard
from headgate.edge.management.control_plane import Admin
from headgate.replays.registry import Control


def console(admin: Admin, plots: Plots | None = None) -> Console:
    """plots: None = from what this process has kept."""
    plots = plots or Recorded(admin.instance.history)
    producers = ProducerPages(admin, plots)
    monitor = MonitorAnswers(admin.instance)
    topics, groups = TopicPages(admin, plots, monitor), GroupPages(admin, monitor)
    replays, wizard = ReplayConsole(admin), Wizard(admin, plots)
    audits, installation = AuditPages(admin), InstallationConsole(admin.installation)
    pages: dict[str, Build] = {
        "": OverviewPage(admin.instance, plots, admin.installation.log).build,
        "/producers": producers.list,
        "/producers/{name}": producers.show,
        "/topics": topics.list,
        "/topics/{topic}": topics.show,
        "/topics/{topic}/partitions/{partition}": topics.partition,
        "/groups": groups.list,
        "/groups/{group}": groups.show,
        "/replays": replays.list,
        "/replays/new": wizard.show,
        "/replays/{id}": replays.show,
        "/audits": audits.list,
        "/audits/{topic}": audits.show,
        "/audits/{topic}/compare": audits.compare,
        "/configuration": installation.configuration,
        "/log": installation.log,
    }
    actions: dict[str, Act] = {
        "/topics/{topic}/forget": topics.forget,
        "/groups/{group}/pause": groups.pause,
        "/groups/{group}/resume": groups.resume,
        "/replays/new": wizard.send,
        "/replays/{id}/pause": replays.change(Control.PAUSE),
        "/replays/{id}/resume": replays.change(Control.RUN),
        "/replays/{id}/cancel": replays.change(Control.CANCEL),
    }
    return Console(admin, pages, actions)
