"""What happens in a round: drawn from its seed, one after another, some of them two at a time."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from chaos.cluster.brokers import Brokers, fill_disk
from chaos.cluster.gateways import (
    BEHIND_BOTH,
    COUNT,
    HELD,
    LANE_STALL_S,
    PLAIN,
    SPOOLED,
    SPOOLING,
    STATES,
    Gateways,
)
from chaos.cluster.redis_pair import RedisPair
from support.kafka import kafka_log
from support.network.tcp_proxy import TcpProxy
from support.process.stack import RunningBroker

TOPICS = (*BEHIND_BOTH, SPOOLED)


class Outage(NamedTuple):
    """No topic took events.

    since, able: monotonic seconds; able: when Kafka took the judge's records again.
    """

    since: float
    able: float


class Faults:
    """What there is to break. happened: how often what did.

    Each fault takes a length in seconds and what it draws from, and ends with what it broke mended.
    A round draws them in an order of its own, each as often as the others. What one draws from is
    its own: a seed gives the same faults, whatever else happens at what time.
    """

    def __init__(self, brokers: Brokers, redis: RedisPair, gateways: Gateways, seed: int) -> None:
        self._brokers, self._redis, self._gateways = brokers, redis, gateways
        self._random = random.Random(seed)
        self.happened: Counter[str] = Counter()
        self.outages: list[Outage] = []
        self.said: list[str] = []  # what happened when, for whom reads a failure
        self._began = time.monotonic()
        self._grown = False
        of_kafka = {
            "a broker is killed": self._kill_one,
            "two brokers are killed": self._kill_two,
            "a broker stands still": self._freeze_one,
            "two brokers stand still": self._freeze_two,
            "all brokers restart, one by one": self._roll,
            "replicas and leaders move": self._move,
            "a broker's disk is full": self._fill_broker,
            "topics are reconfigured": self._reconfigure,
            "topics grow": self._grow,
        }
        of_others = {
            "the network stands still": self._freeze_network,
            "the network is slow": self._slow_network,
            "the network is cut": self._cut_network,
            "the network is half open": self._half_open_network,
            "Redis is killed": self._kill_redis,
            "Redis is flushed": self._flush_redis,
            "Redis fails over to a replica that is behind": self._fail_over,
            "a worker is killed": self._kill_worker,
            "a worker stands still": self._freeze_worker,
            "a gateway is killed": self._kill_gateway,
            "a parent is killed": self._kill_parent,
            "a gateway drains": self._drain,
            "a gateway reloads": self._reload,
            "the clock jumps": self._jump,
            "the spool's disk is full": self._fill_spool,
        }
        self.all: dict[str, Callable[[float, random.Random], Awaitable[None]]] = {
            **of_kafka,
            **of_others,
        }
        self._of_kafka, self._of_others = list(of_kafka), list(of_others)
        self._deck: list[str] = []

    async def round(self, seconds: float) -> None:
        """Break things for that long; all is mended at the end."""
        self._began = time.monotonic()
        while time.monotonic() - self._began < seconds:
            names = [self._draw()]
            # One of the brokers and one of another kind may fall together.
            other = self._of_others if names[0] in self._of_kafka else self._of_kafka
            if self._random.random() < 0.3:
                names.append(self._random.choice(other))
            pause_s = 1.0 + 2 * self._random.random()
            await asyncio.gather(*(self.one(name, self._seed()) for name in names))
            await asyncio.sleep(pause_s)

    def _draw(self) -> str:
        if not self._deck:
            self._deck = self._random.sample(list(self.all), len(self.all))
        return self._deck.pop()

    def _seed(self) -> int:
        return self._random.randrange(1 << 30)

    async def one(self, name: str, seed: int) -> None:
        """Let this happen, for a length that is drawn."""
        chance = random.Random(seed)
        spell_s = 1.0 + 7 * chance.random()
        self._say(f"{name} ({spell_s:.1f} s)")
        self.happened[name] += 1
        await self.all[name](spell_s, chance)
        self._say(f"{name}: over")

    def _say(self, what: str) -> None:
        self.said.append(f"{time.monotonic() - self._began:6.1f} {what}")

    def _some(self, size: int, chance: random.Random) -> list[RunningBroker]:
        return chance.sample(self._brokers.nodes, size)

    async def _until_able(self) -> float:
        """Say when there were enough replicas; wait until all of them are in sync."""
        able = await self._brokers.until_it_takes()
        await self._until_whole()
        return able

    async def _until_whole(self) -> None:
        await self._brokers.until_whole(TOPICS)

    async def _kill_one(self, spell_s: float, chance: random.Random) -> None:
        await self._kill(self._some(1, chance), spell_s)

    async def _kill_two(self, spell_s: float, chance: random.Random) -> None:
        since = time.monotonic()
        able = await self._kill(self._some(2, chance), LANE_STALL_S + spell_s)
        self.outages.append(Outage(since, able))

    async def _kill(self, nodes: list[RunningBroker], spell_s: float) -> float:
        for node in nodes:
            node.kill()
        await asyncio.sleep(spell_s)
        for node in nodes:
            await self._brokers.restart(node)
        return await self._until_able()

    async def _freeze_one(self, spell_s: float, chance: random.Random) -> None:
        await self._freeze(self._some(1, chance), spell_s)

    async def _freeze_two(self, spell_s: float, chance: random.Random) -> None:
        since = time.monotonic()
        able = await self._freeze(self._some(2, chance), LANE_STALL_S + spell_s)
        self.outages.append(Outage(since, able))

    async def _freeze(self, nodes: list[RunningBroker], spell_s: float) -> float:
        for node in nodes:
            await asyncio.to_thread(node.pause)
        await asyncio.sleep(spell_s)
        for node in nodes:
            node.resume()
        return await self._until_able()

    async def _roll(self, _: float, chance: random.Random) -> None:
        for node in self._some(3, chance):
            await asyncio.to_thread(node.stop)
            await self._brokers.restart(node)
            await self._until_whole()

    async def _move(self, _: float, chance: random.Random) -> None:
        topic = chance.choice([PLAIN, STATES, HELD])
        await self._brokers.move_replicas(topic, chance)

    async def _fill_broker(self, spell_s: float, chance: random.Random) -> None:
        (node,) = self._some(1, chance)
        fill_disk(node, spare_bytes=1000)
        await asyncio.sleep(2 + spell_s)
        self.happened["a broker ended because its disk was full"] += node.exit_code is not None
        node.kill()
        await self._brokers.restart(node)
        await self._until_whole()

    async def _reconfigure(self, spell_s: float, chance: random.Random) -> None:
        for configs in (
            {"min.insync.replicas": "3", "max.message.bytes": "70000"},
            {"min.insync.replicas": "2", "max.message.bytes": "60000"},
        ):
            for topic in (PLAIN, STATES):
                await asyncio.to_thread(
                    kafka_log.set_topic_configs, self._brokers.bootstrap, topic, configs
                )
            await asyncio.sleep(spell_s)

    async def _grow(self, _: float, chance: random.Random) -> None:
        """Once: keys move then, and topics that doubled again and again would only cost time."""
        if self._grown:
            return
        self._grown = True
        for topic in (STATES, HELD):
            count = await asyncio.to_thread(
                kafka_log.partition_count, self._brokers.bootstrap, topic
            )
            await asyncio.to_thread(
                kafka_log.add_partitions, self._brokers.bootstrap, topic, 2 * count
            )

    def _ways(self, chance: random.Random) -> list[TcpProxy]:
        """One way, or all ways of a gateway to Kafka, to Redis, or to everything."""
        number = chance.randrange(COUNT)
        kafka, redis = self._brokers.ways[number], self._redis.ways[number]
        one = chance.choice([*kafka, redis])
        return chance.choice([[one], kafka, [redis], [*kafka, redis]])

    async def _freeze_network(self, spell_s: float, chance: random.Random) -> None:
        ways = self._ways(chance)
        for way in ways:
            way.hold(new_too=True)
        await self._then_mend(ways, spell_s)

    async def _slow_network(self, spell_s: float, chance: random.Random) -> None:
        ways = self._ways(chance)
        for way in ways:
            way.request_delay = way.answer_delay = lambda: 0.4 * chance.random() ** 3
        await self._then_mend(ways, spell_s)

    async def _cut_network(self, spell_s: float, chance: random.Random) -> None:
        ways = self._ways(chance)
        for way in ways:
            way.cut()
        await self._then_mend(ways, spell_s)

    async def _half_open_network(self, spell_s: float, chance: random.Random) -> None:
        ways = self._ways(chance)
        for way in ways:
            way.lose()
        await self._then_mend(ways, spell_s)

    async def _then_mend(self, ways: list[TcpProxy], spell_s: float) -> None:
        await asyncio.sleep(spell_s)
        for way in ways:
            way.mend()

    async def _kill_redis(self, spell_s: float, chance: random.Random) -> None:
        await self._redis.kill(spell_s / 2)

    async def _flush_redis(self, _: float, chance: random.Random) -> None:
        await self._redis.flush()

    async def _fail_over(self, spell_s: float, chance: random.Random) -> None:
        await self._redis.fail_over(spell_s / 2)

    async def _kill_worker(self, _: float, chance: random.Random) -> None:
        self._gateways.kill_worker(chance.randrange(COUNT), chance)

    async def _freeze_worker(self, spell_s: float, chance: random.Random) -> None:
        await self._gateways.freeze_worker(chance.randrange(COUNT), spell_s, chance)

    async def _kill_gateway(self, _: float, chance: random.Random) -> None:
        await self._gateways.kill(chance.randrange(COUNT))

    async def _kill_parent(self, _: float, chance: random.Random) -> None:
        await self._gateways.kill_parent(chance.randrange(COUNT))

    async def _drain(self, _: float, chance: random.Random) -> None:
        await self._gateways.drain(chance.randrange(COUNT))

    async def _reload(self, spell_s: float, chance: random.Random) -> None:
        await self._gateways.reload(chance.randrange(SPOOLING), spell_s / 2)

    async def _jump(self, spell_s: float, chance: random.Random) -> None:
        for time_of in chance.sample(self._gateways.times, min(2, len(self._gateways.times))):
            time_of.jump(chance.randint(-1800, 1800))
        await asyncio.sleep(spell_s)

    async def _fill_spool(self, spell_s: float, chance: random.Random) -> None:
        await self._gateways.fill_spool(spell_s)
