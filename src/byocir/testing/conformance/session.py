"""Runs a session: cases of each pattern in turn, until time is over or there were enough."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from math import inf
from pathlib import Path
from random import Random

from xdsl.dialects.builtin import ModuleOp

from byocir.dialects.byoc import LEVELS
from byocir.errors import ByocirError, did_you_mean
from byocir.patterns import Composite
from byocir.patterns.rules import Rule
from byocir.rewrites.byoc.count_work import macs_of
from byocir.targets.base import Target
from byocir.targets.hand_off_passes import channels_of
from byocir.testing.by_example import without_example
from byocir.testing.choose import pick, seeded
from byocir.testing.conformance.cases import Case, draw_feeds
from byocir.testing.conformance.exported import has_device
from byocir.testing.conformance.nets import between, net_of
from byocir.testing.conformance.options import settings_of
from byocir.testing.conformance.saved import saved, text_of
from byocir.testing.conformance.score import Failure, Score
from byocir.testing.conformance.shrink import (
    MOST_SECONDS,
    SECONDS,
    elements_of,
    shrink,
    size_of,
)
from byocir.testing.conformance.trial import Problem, TimeOver, Trial, quiet
from byocir.testing.draft import NARROW, WIDE
from byocir.testing.matches import (
    Example,
    Miss,
    find_match,
    find_near_miss,
    misses_of,
)

MATCH, NEAR_MISS, NET = "match", "near miss", "net"
LEVELS_OF_NETS = (LEVELS, LEVELS, ("graph",), ("tensor",))
THOROUGH = 3
"""Of so many cases one has its calls repeated."""
EXPORTED, FIRST = 30, 3
"""Of so many cases of a pattern one is exported, where the target has a device: the third first."""
MOST_MACS, MOST_ELEMENTS = 1 << 20, 1 << 16
"""The multiply-adds of the largest programs that are tried, and the elements of their largest
arrays: simulators are slow."""
TURNS = 3
"""The times that a program is looked for which a rule refuses, before others have their turns."""
REDRAWS = 40
"""The programs of a pattern that are looked at for a smaller one."""

Step = tuple[Composite, Callable[[], None]]
"""Names a composite, with the function that tries the next thing with it."""
Progress = Callable[[Score, str], None]
"""Told the score so far, and what comes next."""


@dataclass
class Setting:
    """Describes a target with one choice of its options, and the composites that it then has."""

    target: Target
    composites: Sequence[Composite]
    misses: dict[str, list[Miss]] = field(default_factory=dict[str, list[Miss]])
    missed: Counter[str] = field(default_factory=Counter[str])
    """By composite the near misses that were looked for."""

    def misses_of(self, composite: Composite) -> list[Miss]:
        """Lists all that may make programs of a composite miss, its rules first."""
        if composite.name not in self.misses:
            self.misses[composite.name] = misses_of(composite)
        return self.misses[composite.name]

    @property
    def shown(self) -> str:
        return str(self.target.spec())


@dataclass
class Session:
    """Draws cases of a target and tries them, always the same for the same seed."""

    target: Target
    seed: int = 0
    patterns: Sequence[str] = ()
    folder: Path | None = None
    """The folder into which programs that show a problem are written; None: nowhere."""
    again: Sequence[str] = ()
    """Further words of commands that show a problem again."""
    progress: Progress = lambda score, what: None
    score: Score = field(init=False)

    def __post_init__(self) -> None:
        self.settings = [
            Setting(each, _chosen(each, self.patterns)) for each in settings_of(self.target)
        ]
        _check_names(self.settings, self.patterns)
        if not any(setting.composites for setting in self.settings):
            raise ByocirError(
                "B388",
                f"expected a target with patterns, found none in {self.target.name}",
                help="list its composites in `patterns`",
            )
        self._matches = Counter[str]()
        self._known: set[tuple[str, str]] = set()
        self._end = inf
        """The moment, in `time.monotonic()`, at which time is over."""
        self._spent = defaultdict[str, float](float)
        """By composite the seconds that its steps took."""
        self._taken: dict[str, Case] = {}
        """By composite the smallest program that it took."""
        self._home: dict[str, Setting] = {}
        """By composite that is tried the first setting that has it: the score is of these."""
        rules: dict[tuple[str, str], None] = {}
        for setting in self.settings if self.patterns else self.settings[:1]:
            for each in setting.composites:
                if self._home.setdefault(each.name, setting) is setting:
                    rules.update(((each.name, rule.sentence), None) for rule in each.rules)
        unknown = {
            each.name: without_example(sorted({n for p in each.walk() for n in p.root_names()}))
            for setting in self.settings
            for each in setting.composites
        }
        self.score = Score(str(self.target.spec()), [*self._home], [*rules], unknown=unknown)

    def _is_at_home(self, setting: Setting, composite: Composite) -> bool:
        return self._home.get(composite.name) is setting

    def run(
        self, seconds: float = 60.0, rounds: int | None = None, *, first: bool = False
    ) -> Score:
        """Tries cases until time is over, at least one, and of each pattern for an even part of it;
        with `rounds`, so many of each pattern and kind, and at least one of each rule; with
        `first`, until something is wrong.
        """
        end = inf if rounds is not None else time.monotonic() + seconds
        part = inf if rounds is not None else seconds / (len(self._home) + 1)  # one for the hashes
        self._end = inf if rounds is not None else end - part
        with quiet():
            for composite, step in self._steps(rounds):
                if self._spent[composite.name] <= part:
                    self._spend(composite, step)
                if time.monotonic() > self._end or (first and self.score.wrong):
                    break
            if rounds is None and not (first and self.score.wrong):
                self._try_other_hashes(end)
        return self.score

    def _spend(self, composite: Composite, step: Callable[[], None]) -> None:
        """Does a step of a composite, and counts the time that it takes."""
        began = time.monotonic()
        with suppress(TimeOver):
            step()
        self._spent[composite.name] += time.monotonic() - began

    def _try_other_hashes(self, end: float) -> None:
        """Compares the code of a small program of each composite, for which there is time, with
        that from another process.
        """
        from byocir.testing.conformance.hash_seed import differing

        self.progress(self.score, "another hash seed")
        for setting in self.settings:
            taken = {n: case for n, case in self._taken.items() if self._home[n] is setting}
            found = differing(setting.target, taken, end) if taken else {}
            for name, problem in found.items():
                self._fail(setting, [name], MATCH, problem, taken[name], is_small=True)

    def _steps(self, rounds: int | None) -> Iterator[Step]:
        yield from self._first_steps(self.settings[0])
        for number in count(1) if rounds is None else range(1, rounds):
            # The options as they were given, every other time.
            others = self.settings[1:]
            setting = self.settings[0]
            if number % 2 and others:
                setting = others[number // 2 % len(others)]
            for composite in setting.composites:
                yield composite, partial(self._match, setting, composite, number)
                yield composite, partial(self._near_miss, setting, composite)
                yield composite, partial(self._net, setting, composite, number)

    def _first_steps(self, setting: Setting) -> Iterator[Step]:
        """Yields a match of each pattern, then a near miss of each rule, so that all are reached
        soon; then another search for rules that had none.
        """
        for composite in setting.composites:
            for number in range(TURNS if composite.glue else 1):
                if not self.score.taken[composite.name]:
                    yield composite, partial(self._match, setting, composite, number)
        for composite in setting.composites:
            for _ in composite.rules or (None,):
                yield composite, partial(self._near_miss, setting, composite)
        for composite in setting.composites:
            for _ in self._waiting(composite):
                yield composite, partial(self._near_miss, setting, composite)
        for composite in setting.composites:
            yield composite, partial(self._net, setting, composite, 0)

    def _seed(self, *parts: object) -> int:
        text = " ".join(map(str, (self.seed, *parts)))
        return Random(text).getrandbits(31)

    @property
    def _multiple(self) -> int:
        """Gives the number of channels of which the target takes multiples."""
        return channels_of(self.target, "channel_multiple", 1)

    # The kinds of cases.

    def _match(self, setting: Setting, composite: Composite, number: int) -> None:
        seed = self._seed(setting.shown, composite.name, MATCH, number)
        breadth = (WIDE if number % 4 < 3 else NARROW).with_multiples(self._multiple)
        find = partial(find_match, composite, seed, breadth)
        example = self._drawn(composite, find, setting)
        if self._is_at_home(setting, composite):
            self.score.note(composite.name, "", is_found=example is not None)
        if example is not None and composite.glue:
            module = between(seeded(seed), example.module)
            levels = LEVELS if composite.level == "graph" else (composite.level,)
            self._trial(setting, composite, MATCH, self._case(seed, module, levels))
        elif example is not None:
            self._try(setting, composite, MATCH, seed, example)

    def _next_miss(self, setting: Setting, composite: Composite) -> Miss:
        """Chooses what makes the next program of a composite miss: each in turn, after rules that
        have refused nothing in a few turns.
        """
        misses, number = setting.misses_of(composite), setting.missed[composite.name]
        setting.missed[composite.name] += 1
        waiting = self._waiting(composite) if self._is_at_home(setting, composite) else []
        if waiting and number >= len(composite.rules):
            return waiting[0]
        return misses[number % len(misses)]

    def _waiting(self, composite: Composite) -> list[Rule]:
        """Lists the rules that have refused nothing yet, and have turns left."""
        places = {(composite.name, rule.sentence): rule for rule in composite.rules}
        score = self.score
        return [r for p, r in places.items() if p not in score.refused and score.tried[p] < TURNS]

    def _near_miss(self, setting: Setting, composite: Composite) -> None:
        seed = self._seed(setting.shown, composite.name, NEAR_MISS, setting.missed[composite.name])
        miss = self._next_miss(setting, composite)
        find = partial(_missed, composite, miss, seed)
        example = self._drawn(composite, find, setting)
        if isinstance(miss, Rule) and self._is_at_home(setting, composite):
            self.score.note(composite.name, miss.sentence, is_found=example is not None)
        if example is None:
            self._unbroken(setting, composite, miss)
            return
        if not example.named_by(composite.attempt(example.root)):
            text = f"expected a program to be refused each time for '{example.flipped}', found not"
            self._fail(setting, [composite.name], NEAR_MISS, Problem("B387", text), None)
            return
        if isinstance(miss, Rule) and self._is_at_home(setting, composite):
            self.score.refused.add((composite.name, miss.sentence))
        self._try(setting, composite, NEAR_MISS, seed, example)

    def _net(self, setting: Setting, composite: Composite, number: int) -> None:
        seed = self._seed(setting.shown, composite.name, NET, number)
        choose = seeded(seed)
        programs: list[Example | None] = []
        for i in range(choose(2, 4)):
            others = setting.composites
            made = composite if i == 0 else others[choose(0, len(others) - 1)]
            if made.level == composite.level:
                breadth = pick(choose, (NARROW, WIDE)).with_multiples(self._multiple)
                find = partial(find_match, made, choose(0, 99), breadth)
                programs.append(self._drawn(made, find, setting))
        found = [each.module for each in programs if each is not None]
        if not found:
            return
        module = net_of(choose, [*found, *found[:1]] if choose(0, 1) else found)
        levels = LEVELS_OF_NETS[choose(0, 3)] if composite.level == "graph" else LEVELS
        self._trial(setting, composite, NET, self._case(seed, module, levels))

    def _drawn(
        self, composite: Composite, find: Callable[[], Example | None], setting: Setting
    ) -> Example | None:
        """Draws a program; notes a problem if a rule or test of the pattern fails meanwhile."""
        try:
            return find()
        except ByocirError as error:
            told = str(error).removeprefix(f"error[{error.code}]: ")
            self._fail(setting, [composite.name], MATCH, Problem(error.code, told), None)
            return None

    def _unbroken(self, setting: Setting, composite: Composite, miss: Miss) -> None:
        """Notes a problem with a rule whose `vary` says what it refuses, if no program was found
        that it refuses.
        """
        if not isinstance(miss, Rule) or miss.vary is None or not miss.vary.fails:
            return
        rule = composite.name, miss.sentence
        if self.score.found[rule] or self.score.tried[rule] < TURNS:
            return  # programs that no other rule refuses may just be rare
        place = f"[{miss.vary.axis}]" if miss.vary.axis is not None else f".{miss.vary.attribute}"
        text = (
            f"expected rule '{miss.sentence}' to refuse {miss.vary.name}{place} of "
            f"{', '.join(map(str, miss.vary.fails))}, as its `vary` says, found no program that it "
            "refuses"
        )
        self._fail(setting, [composite.name], NEAR_MISS, Problem("B387", text), None)

    # What is done with each.

    def _try(
        self, setting: Setting, composite: Composite, kind: str, seed: int, example: Example
    ) -> None:
        self._trial(setting, composite, kind, self._case(seed, example.module, LEVELS))

    def _case(self, seed: int, module: ModuleOp, levels: tuple[str, ...]) -> Case | str:
        """Makes the case of a program, or says why it is left out."""
        for found, most, what in (
            (macs_of([module]), MOST_MACS, "multiply-adds"),
            (max(elements_of(module), default=0), MOST_ELEMENTS, "elements in an array"),
        ):
            if found > most:
                return f"expected at most {most:,} {what} to try a program, found {found:,}"
        feeds = draw_feeds(seeded(seed), module, special=self.target.non_finite)
        return "its inputs are no numbers" if feeds is None else Case(module, feeds, levels)

    def _trial(self, setting: Setting, composite: Composite, kind: str, case: Case | str) -> None:
        self.progress(self.score, composite.name)
        if isinstance(case, str):
            self._decline(composite, kind, case)
            return
        thorough = self.score.cases % THOROUGH == 0
        exported = kind == MATCH and self._is_exported(setting, composite)
        until = self._end if self.score.cases else inf
        trial = Trial(case, setting.target, thorough, exported, until).run()
        if not trial.is_run:
            return
        self.score.cases += 1
        self.score.taken.update(trial.taken)
        if self._is_at_home(setting, composite) and trial.taken[composite.name]:
            known = self._taken.get(composite.name, case)
            self._taken[composite.name] = min(known, case, key=lambda each: size_of(each.module))
        elif composite.name in trial.declined:
            self._decline(composite, kind, trial.declined[composite.name])
        if trial.problem is not None:
            self._fail(setting, [*trial.taken] or [composite.name], kind, trial.problem, case)

    def _decline(self, composite: Composite, kind: str, reason: str) -> None:
        """Notes why a program made for a pattern was not taken as such."""
        if kind == MATCH:
            self.score.declined.setdefault(composite.name, Counter[str]())[reason] += 1

    def _is_exported(self, setting: Setting, composite: Composite) -> bool:
        """Tells if a case is also run as an exported project; that takes long, and so is rare."""
        if not has_device(setting.target):
            return False
        self._matches[composite.name] += 1
        return self._matches[composite.name] % EXPORTED == FIRST

    def _fail(
        self,
        setting: Setting,
        names: Sequence[str],
        kind: str,
        problem: Problem,
        case: Case | None,
        is_small: bool = False,
    ) -> None:
        """Notes a problem with these patterns; the first of its kind is made smaller, unless it
        `is_small`.
        """
        self.score.wrong += 1
        if any((name, problem.code) in self._known for name in names):
            return
        if case is not None and not is_small:
            shows = partial(_shows, setting.target, problem.code)
            seconds = SECONDS if self._end < inf else MOST_SECONDS
            case = shrink(case, shows, self._redrawn(setting, names, case), seconds)
            trial = Trial(case, setting.target, is_exported=problem.code == "B386").run()
            if trial.problem is not None and trial.problem.code == problem.code:
                problem = trial.problem  # another error code shows that one trial affects others
            names = [*trial.taken] or names
        self._known.update((name, problem.code) for name in names)
        shown = text_of(setting.target)
        failure = Failure(", ".join(names), kind, shown, problem, case, again=self.again)
        self.score.failures.append(saved(failure, self.folder))

    def _redrawn(self, setting: Setting, names: Sequence[str], case: Case) -> Iterator[Case]:
        """Yields other programs of the same patterns."""
        for composite in setting.composites:
            for seed in range(REDRAWS if composite.name in names else 0):
                example = find_match(composite, seed)
                made = None if example is None else self._case(seed, example.module, case.levels)
                if isinstance(made, Case):
                    yield made


def _missed(composite: Composite, miss: Miss, seed: int) -> Example | None:
    """Finds a program that misses for this reason alone; it searches twice for a rule that says
    what it refuses.
    """
    has_hint = isinstance(miss, Rule) and miss.vary is not None and bool(miss.vary.fails)
    found = (find_near_miss(composite, miss, seed + i) for i in range(2 if has_hint else 1))
    return next((each for each in found if each is not None), None)


def _shows(target: Target, code: str, case: Case, until: float) -> bool:
    is_thorough, is_exported = code in ("B382", "B384", "B385"), code == "B386"
    try:
        problem = Trial(case, target, is_thorough, is_exported, until).run().problem
    except ByocirError:  # the part is not a valid program
        return False
    return problem is not None and problem.code == code


def _chosen(target: Target, names: Sequence[str]) -> list[Composite]:
    """Lists the composites of a target with these names, or all of them without names."""
    listed = [each.of_target(target.name) for each in target.composites()]
    return [each for each in listed if not names or each.name in names]


def _check_names(settings: Sequence[Setting], names: Sequence[str]) -> None:
    """Raises ByocirError B388 for a name that no composite has under any options."""
    known = {each.name for setting in settings for each in setting.composites}
    for name in names:
        if name not in known:
            target = settings[0].target
            listed = [each.of_target(target.name).name for each in target.composites()]
            raise ByocirError(
                "B388",
                f"expected a pattern of target '{target.name}', found '{name}'",
                help=did_you_mean(name, listed),
            )
