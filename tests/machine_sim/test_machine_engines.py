"""The engines of any machine on programs of a few instructions whose times are counted by hand."""

import json
from importlib import resources

import jsonschema
import pytest

from byocir.machine_sim import (
    Access,
    Instruction,
    MachineModel,
    Program,
    Sequencer,
    Stuck,
    TokenQueue,
    Transfer,
    Unit,
    Wait,
    conflicts,
    legal_order,
    order_of,
)
from byocir.machine_sim import hazards as hazards_of
from byocir.machine_sim import run_times as times_of
from byocir.machine_sim.trace import program_trace, trace_text

DMA, CORE = 0, 1
LEFT, RIGHT = Access("tcm", 0, 64), Access("tcm", 64, 128)


def model(**options):
    return MachineModel([Unit("dma", 8), Unit("core", 8)], **options)


def run_times(machine, program):
    return times_of(machine, Program.of(program))


def hazards(machine, program, **options):
    return hazards_of(machine, Program.of(program), **options)


def load(to, **options):
    return Instruction(DMA, 10, writes=[to], **options)


def work(on, **options):
    return Instruction(CORE, 30, reads=[on], **options)


def starts(machine, *program):
    return run_times(machine, program).start.tolist()


def kinds(machine, *program, **options):
    return [(h.kind, h.first, h.second) for h in hazards(machine, program, **options)]


def test_units_without_order_run_side_by_side_and_race():
    program = [load(LEFT), work(LEFT), load(LEFT)]
    assert starts(model(), *program) == [0, 0, 10]
    assert kinds(model(), *program) == [("race", 0, 1), ("race", 1, 2)]
    (read, write) = hazards(model(), program)
    assert (read.memory, read.span, read.writes) == ("tcm", (0, 64), (True, False))
    assert write.writes == (False, True)


def test_one_unit_is_ordered():
    assert kinds(model(), load(LEFT), load(LEFT)) == []


def test_hardware_orders_what_overlaps_and_nothing_else():
    guarded = model(guarded=frozenset({"tcm"}))
    program = [load(LEFT), work(LEFT), load(RIGHT), load(LEFT)]
    assert starts(guarded, *program) == [0, 10, 10, 40]
    assert hazards(guarded, program) == []
    assert conflicts(Program.of(program)) == {1: [0], 3: [1]}


def test_hardware_orders_only_the_memories_that_it_sees():
    guarded = model(guarded=frozenset({"tcm"}))
    outside = Access("dram", 0, 8)
    program = [Instruction(DMA, writes=[outside]), Instruction(CORE, reads=[outside])]
    assert kinds(guarded, *program) == [("race", 0, 1)]


def test_tokens_are_found_when_the_results_are():
    machine = model(tokens=[TokenQueue("loaded"), TokenQueue("free")])
    program = [load(LEFT, latency=5, pushes=[0]), work(LEFT, pops=[0], pushes=[1])]
    program += [load(LEFT, pops=[1])]
    assert starts(machine, *program) == [0, 15, 45]
    assert hazards(machine, program) == []


def test_a_unit_keeps_an_instruction_whose_token_finds_no_room():
    machine = model(tokens=[TokenQueue("loaded", capacity=1)])
    program = [load(LEFT, pushes=[0]), load(RIGHT, pushes=[0]), load(Access("tcm", 128, 192))]
    program += [work(LEFT, pops=[0]), work(RIGHT, pops=[0])]
    times = run_times(machine, program)
    assert times.start.tolist() == [0, 10, 20, 10, 40]
    longer = [Instruction(CORE, 25), *program]
    times = run_times(machine, longer)
    assert times.start.tolist() == [0, 0, 10, 25, 25, 55]
    assert times.waits["queue"].tolist() == [0, 0, 5, 0, 0, 0]


def test_a_counted_wait_holds_the_sequencer_until_few_are_left():
    program = [load(LEFT), load(RIGHT), work(LEFT, waits=[Wait(DMA, 1)])]
    program += [work(RIGHT, waits=[Wait(DMA)]), load(LEFT, waits=[Wait(CORE, 1)])]
    assert starts(model(), *program) == [0, 10, 10, 40, 40]
    assert hazards(model(), program) == []
    assert run_times(model(), program).sequencer.order == 40


def test_a_counted_wait_for_more_than_were_handed_over_is_none():
    program = [load(LEFT), load(RIGHT), load(LEFT), work(RIGHT, waits=[Wait(DMA, 5)])]
    assert starts(model(), *program) == [0, 10, 20, 0]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_counted_wait_for_too_few_is_a_race(most):
    program = [load(LEFT), load(RIGHT), work(RIGHT, waits=[Wait(DMA, most)])]
    assert kinds(model(), *program) == [("race", 1, 2)]


def test_what_the_sequencer_waited_for_counts_for_all_later_instructions():
    program = [load(LEFT), Instruction(DMA, waits=[Wait(DMA)]), work(LEFT)]
    assert kinds(model(), *program) == []


def test_the_sequencer_waits_for_a_unit_without_queue():
    machine = MachineModel([Unit("dma", 8), Unit("core", 0)])
    program = [work(LEFT), load(LEFT), work(RIGHT), load(RIGHT)]
    assert starts(machine, *program) == [0, 30, 30, 60]
    assert hazards(machine, program) == []


def test_a_full_queue_holds_the_sequencer():
    machine = MachineModel([Unit("dma", 1), Unit("core", 8)], sequencer=Sequencer(cycles=1))
    times = run_times(machine, [load(LEFT), load(RIGHT), load(LEFT), work(RIGHT)])
    assert times.delivered.tolist() == [1, 2, 11, 12]
    assert times.sequencer.queue == 8


def test_a_channel_is_shared_by_rank_and_each_channel_by_itself():
    one = model(channels=["dram"])
    slow = Instruction(DMA, 0, transfer=Transfer(0, 20, rank=1))
    quick = Instruction(CORE, 0, transfer=Transfer(0, 5, lead=4))
    times = run_times(one, [slow, quick])
    assert times.end.tolist() == [25, 9]
    assert times.channels[0].tolist() == [[0, 0, 4], [1, 4, 9], [0, 9, 25]]
    two = model(channels=["read", "write"])
    apart = Instruction(CORE, 0, transfer=Transfer(1, 5, lead=4))
    assert run_times(two, [slow, apart]).end.tolist() == [20, 9]


def test_of_equal_requests_the_one_that_waits_longest_goes_first():
    units = [Unit(name, 8) for name in ("long", "late", "early")]
    machine = MachineModel(units, channels=["dram"])
    requests = [(0, 20, 0), (1, 5, 9), (2, 5, 3)]
    program = [Instruction(u, 0, transfer=Transfer(0, beats, lead)) for u, beats, lead in requests]
    assert run_times(machine, program).end.tolist() == [20, 30, 25]


def test_what_one_channel_finishes_may_ask_another_that_is_busy_later():
    """A short read lets an urgent write begin before a long write is over."""
    units = [Unit(name, 8) for name in ("write", "read", "urgent")]
    tokens = [TokenQueue("read")]
    machine = MachineModel(units, tokens, channels=["write", "read"])
    program = [
        Instruction(0, 0, transfer=Transfer(0, 20, rank=1)),
        Instruction(1, 0, transfer=Transfer(1, 5), pushes=[0]),
        Instruction(2, 0, transfer=Transfer(0, 3), pops=[0]),
    ]
    assert run_times(machine, program).end.tolist() == [23, 5, 8]


def test_results_of_a_unit_appear_in_order():
    machine = model(tokens=[TokenQueue("loaded")])
    program = [load(LEFT, latency=100), load(RIGHT, latency=1, pushes=[0]), work(RIGHT, pops=[0])]
    assert starts(machine, *program) == [0, 10, 110]
    assert run_times(machine, program[:2]).cycles == 110


def test_cycles_of_each_unit_add_up():
    machine = model(tokens=[TokenQueue("loaded")], sequencer=Sequencer(2))
    times = run_times(machine, [load(LEFT, pushes=[0]), work(LEFT, pops=[0]), load(RIGHT)])
    for unit in (*times.units, times.sequencer):
        assert sum(vars(unit).values()) == times.cycles


def test_reads_of_what_nobody_wrote_are_told_of_fresh_memories():
    program = [load(LEFT), work(Access("tcm", 0, 80), waits=[Wait(DMA)])]
    assert kinds(model(), *program) == []
    (found,) = hazards(model(), program, fresh={"tcm"})
    assert (found.kind, found.first, found.span) == ("unwritten", 1, (64, 80))


def test_a_token_that_nobody_pushes_is_a_deadlock():
    machine = model(tokens=[TokenQueue("loaded")])
    program = [work(LEFT, pops=[0]), load(LEFT)]
    assert kinds(machine, *program) == [("deadlock", 0, None)]
    assert legal_order(order_of(machine, Program.of(program))) == [1]
    with pytest.raises(Stuck) as stuck:
        run_times(machine, program)
    assert [(h.unit, h.index, h.cause) for h in stuck.value.halts] == [(CORE, 0, "order")]


def test_a_deadlock_ends_in_the_middle_of_a_run():
    units, tokens = [Unit("dma", 8), Unit("core", 2)], [TokenQueue("loaded"), TokenQueue("free")]
    program = [*[load(LEFT)] * 3, work(LEFT, pops=[0]), *[work(LEFT)] * 4]
    with pytest.raises(Stuck) as stuck:
        run_times(MachineModel(units, tokens), program)
    assert stuck.value.ran == 3
    halts = [(None, 5, "queue"), (CORE, 3, "order")]
    assert [(h.unit, h.index, h.cause) for h in stuck.value.halts] == halts
    full = [*[load(LEFT)] * 3, load(LEFT, pushes=[0]), load(LEFT), load(LEFT, pushes=[0])]
    with pytest.raises(Stuck) as stuck:
        run_times(MachineModel(units, [TokenQueue("loaded", capacity=1)]), full)
    assert stuck.value.ran == 5
    assert [(h.unit, h.index, h.cause) for h in stuck.value.halts] == [(DMA, 5, "queue")]


def test_tokens_in_a_circle_are_a_deadlock():
    machine = model(tokens=[TokenQueue("there"), TokenQueue("back")])
    program = [load(LEFT, pops=[1], pushes=[0]), work(LEFT, pops=[0], pushes=[1])]
    assert kinds(machine, *program) == [("deadlock", 0, 1), ("deadlock", 1, 0)]


def test_a_queue_without_room_for_ever_is_stuck_in_time_alone():
    machine = model(tokens=[TokenQueue("loaded", capacity=1)])
    program = [load(LEFT, pushes=[0]), load(RIGHT, pushes=[0])]
    assert kinds(machine, *program) == [("leak", 0, None), ("leak", 1, None)]
    with pytest.raises(Stuck) as stuck:
        run_times(machine, program)
    assert [(h.unit, h.index, h.cause) for h in stuck.value.halts] == [(DMA, 1, "queue")]


def test_any_machine_has_a_trace():
    machine = model(tokens=[TokenQueue("loaded")], channels=["dram"])
    program = [load(LEFT, latency=5, pushes=[0], transfer=Transfer(0, 8, lead=4))]
    program += [work(LEFT, pops=[0])]
    times = run_times(machine, program)
    trace = program_trace(
        "npu", machine, Program.of(program), times, ["load left", "work"], ["conv"] * 2
    )
    events = trace["traceEvents"]
    schema = resources.files("byocir.vta_sim") / "trace.schema.json"
    jsonschema.validate(trace, json.loads(schema.read_text()))
    assert json.loads(trace_text(trace)) == trace
    slices = [(e["tid"], e["name"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert slices == [
        (1, "conv", 0, 12),
        (1, "load left", 0, 12),
        (2, "conv", 17, 30),
        (2, "work", 17, 30),
    ]
    assert [(e["ph"], e["tid"], e["ts"]) for e in events if e.get("cat") == "token"] == [
        ("s", 1, 11),
        ("f", 2, 17),
    ]
    shares = [(e["ts"], e["args"]["dma"]) for e in events if e["name"] == "dram"]
    assert shares == [(4, 1), (12, 0)]
    (waited,) = (e["args"] for e in events if e["name"] == "work")
    assert waited == {"index": 1, "location": "conv", "waited for order": 17}
