"""Several processes train as one does: the same losses, one writer, and nobody waits for a process that died."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from builders import shape_folder
from commands import settings
from safetensors import safe_open
from sharing import EPOCHS, SCENARIOS, digest, epochs_of, losses_of

from show_attend_tell.errors import SatError
from show_attend_tell.training import ranks

HELPERS = Path(__file__).parents[1] / "helpers"
FEW = {"soft": 50, "hard": 6, "encoder": 6}  # steps in the suite


def environment(**more):
    path = os.pathsep.join([str(HELPERS), *(part for part in sys.path if part)])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **more}


def torchrun(processes, *command):
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", *command]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


def check_alike(processes, folder, steps):
    """What `sharing.py` makes in these processes. torchrun would add seconds of its own."""
    command = [sys.executable, str(HELPERS / "sharing.py"), str(folder)]
    command += [f"{name}={number}" for name, number in steps.items()]
    common = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    started = [
        subprocess.Popen(command, env=environment(RANK=str(rank), **common), stderr=subprocess.PIPE, text=True)
        for rank in range(processes)
    ]
    said = [process.communicate(timeout=300)[1] for process in started]
    everyone = json.loads((folder / "found.json").read_text())
    for refused in (found.pop("refused") for found in everyone):
        assert refused.startswith(f"process 1 of {processes} has other data, settings or weights")
    assert len(everyone) == processes and all(found == everyone[0] for found in everyone)  # to the bit
    for name, number in steps.items():
        alone = losses_of(name, number)
        together = everyone[0][name]
        drawn = "hard" in name or name == "both"  # advantages make the rounding larger
        assert together["losses"] == pytest.approx(alone["losses"], abs=1e-4 if drawn else 1e-5, rel=1e-6), name
        assert together["scores"] == pytest.approx(alone["scores"], rel=1e-4), name

    # the epochs, what is watched in them, and going on alone with what they left
    trainer, epochs = epochs_of(None)
    for ours, theirs in zip(epochs[:-1], everyone[0]["epochs"]["reached"], strict=True):
        assert theirs == pytest.approx({**ours, "seconds": 0.0}, rel=1e-4)
    resumed, _ = epochs_of(folder / "model", resume=True)
    assert resumed.epoch == trainer.epoch == EPOCHS and digest(resumed) != everyone[0]["epochs"]["weights"]
    for name, weight in trainer.decoder.state_dict().items():
        torch.testing.assert_close(resumed.decoder.state_dict()[name], weight, rtol=1e-3, atol=1e-4, msg=name)

    # the death of a process ends the others, and leaves the last state
    assert [process.returncode for process in started] == [1, 7, *[1] * (processes - 2)]
    assert f"process 0 of {processes} lost the others: one of them has ended" in said[0]
    assert "continue with --resume" in said[0]
    with safe_open(folder / "dying" / "training" / "state.safetensors", framework="pt") as state:
        assert json.loads(state.metadata()["progress"])[0] == 0  # epochs finished, when it was written


@pytest.mark.acceptance
def test_two_processes_have_the_losses_of_one_and_the_death_of_one_ends_the_other(tmp_path):
    check_alike(2, tmp_path, FEW)


@pytest.mark.proof
@pytest.mark.parametrize("processes", [2, 4])
def test_every_kind_of_training_has_the_same_losses_in_many_processes(processes, tmp_path):
    check_alike(processes, tmp_path, {name: 50 for name in SCENARIOS if name != "dropout"})


@pytest.mark.parametrize("rows", [1, 3, 5, 64])
@pytest.mark.parametrize("world", [2, 4, 7])
def test_each_row_of_a_batch_has_one_rank_and_the_shares_are_even(rows, world, monkeypatch):
    seen = []
    shares = []
    sizes = []
    monkeypatch.setattr(ranks, "world_size", lambda: world)
    for rank in range(world):
        monkeypatch.setattr(ranks, "rank", lambda rank=rank: rank)
        part = ranks.part_of(rows)
        assert list(range(rows))[part.rows]  # each rank has something to compute
        shares.append(part.share)
        if part.share:
            seen += range(rows)[part.rows]
            sizes.append(len(range(rows)[part.rows]))
    assert seen == list(range(rows)) and max(sizes) - min(sizes) <= 1
    assert sum(shares) == pytest.approx(world) and shares[0] > 0


def test_ranks_drop_out_differently_and_leave_the_shared_generator_alone(monkeypatch):
    monkeypatch.setattr(ranks, "world_size", lambda: 2)
    drawn = []
    for rank, step in ((0, 5), (1, 5), (0, 6), (0, 5)):
        monkeypatch.setattr(ranks, "rank", lambda rank=rank: rank)
        before = torch.get_rng_state()
        with ranks.own_dropout(torch.device("cpu"), step):
            drawn.append(torch.rand(4))
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(drawn[0], drawn[3])
    assert not torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])


@pytest.mark.parametrize("given", ["soon", "0", "nan"])
def test_a_wrong_time_to_wait_is_refused(given, monkeypatch):
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "2"), ("SAT_TIMEOUT", given)):
        monkeypatch.setenv(name, value)
    with pytest.raises(SatError, match=f"SAT_TIMEOUT is '{given}'"), ranks.process_group(torch.device("cpu")):
        pass


SAT = ("-c", "from show_attend_tell.cli import main; main()")


def training(data, output, *more, processes):
    """`sat train` of an encoder and a decoder, which takes seconds."""
    train = [
        "train",
        str(data),
        "--encoder",
        "small",
        "--encoder-lr",
        "1e-3",
        "--init-from",
        "none",
        "--output",
        str(output),
        "--device",
        "cpu",
        *settings(),
        *more,
    ]
    return (
        [sys.executable, *SAT, *train]
        if processes == 1
        else torchrun(processes, "--no-python", sys.executable, *SAT, *train)
    )


def workers(process):
    """The processes that torchrun started."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(pid) for pid in children.read_text().split()] if children.exists() else []


@pytest.mark.proof
@pytest.mark.parametrize("how", ["killed", "stopped", "interrupted"])
def test_a_training_of_the_command_outlives_what_happens_to_a_process(how, tmp_path):
    data = shape_folder(tmp_path / "shapes", train=12, val=4, test=0, captions=3)
    command = training(data, tmp_path / "model", "--epochs", "300", "--resume", processes=3)
    process = subprocess.Popen(
        command,
        env=environment(SAT_TIMEOUT="8", SAT_CACHE=str(tmp_path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    state = tmp_path / "model" / "training" / "state.safetensors"
    while not state.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.2)
    time.sleep(1)
    began = time.monotonic()
    victims = workers(process)
    assert len(victims) == 3
    if how == "interrupted":
        process.send_signal(signal.SIGINT)
    else:
        os.kill(victims[-1], signal.SIGKILL if how == "killed" else signal.SIGSTOP)
    _, err = process.communicate(timeout=120)
    assert process.returncode != 0 and time.monotonic() - began < 60
    assert not any(Path(f"/proc/{pid}/cmdline").exists() for pid in victims)
    expected = {"interrupted": "sat: interrupted. To go on from here", "stopped": "did not answer for 8 s"}
    assert expected.get(how, "") in err, err

    command = training(data, tmp_path / "model", "--resume", processes=2)
    process = subprocess.Popen(
        command, env=environment(SAT_CACHE=str(tmp_path)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    said = [process.stdout.readline()]
    while not said[-1].startswith("epoch "):
        assert said[-1], process.communicate()
        said.append(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert "sat: interrupted. To go on from here: the same command" in err
    assert len([line for line in said if line.startswith("resumed after ")]) == 1  # one of the two speaks
