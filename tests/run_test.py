#!/usr/bin/env python3
"""hase run as users see it: killed workers, killed engines, jobs that cannot run.

  run_test.py HASE_BINARY    uses the small models of tests/models; takes some seconds.
"""
import contextlib
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

hase, models = sys.argv[1], pathlib.Path(__file__).resolve().parent / "models"
HEADER = "job_id,model,batch,inputs,arrival_s,priority,deadline_s,owner,max_parallel,gang,sharing,device_types,runtime,precision\n"
CLUSTER = """nodes:
  - name: here
    devices:
      - {type: cpu, cores: [0], quota: 0.5}
      - {type: cpu, cores: [0], quota: 0.25}
"""
problems = []


def expect(condition, text):
    if not condition:
        problems.append(text)


def jobs_file(folder, rows):
    path = folder / "jobs.csv"
    path.write_text(HEADER + "".join(f"{n},{models / m}.onnx,{b},{i},{t},,,,,,,,,\n" for n, m, b, i, t in rows))
    return path


def command(folder, *more):
    return [hase, "run", "--state", str(folder / "state"), "--json", *more]


def fresh(folder, rows, *more):
    (folder / "cluster.yaml").write_text(CLUSTER)
    jobs = jobs_file(folder, rows)
    # Roughly what the models take on each device; no predictor is needed here.
    rows = [f"{models / m}.onnx,{device},{b},,,{ms * slow * 0.9},{ms * slow},{ms * slow * 1.1},{memory}\n"
            for device, slow in (("cpu-1c-q0.5", 2), ("cpu-1c-q0.25", 4))
            for m, b, ms, memory in (("steady", 2, 8, 200_000_000), ("tiny", 1, 0.05, 100_000_000),
                                     ("broken", 1, 1, 100_000_000))]
    (folder / "estimates.csv").write_text(
        "model,device_type,batch,runtime,precision,p10_ms,p50_ms,p90_ms,memory_bytes\n" + "".join(rows))
    return command(folder, "--cluster", str(folder / "cluster.yaml"), "--jobs", str(jobs),
                   "--estimates", str(folder / "estimates.csv"), *more)


def journal(folder, kinds):
    try:
        with sqlite3.connect(f"file:{folder}/state/hase.db?mode=ro", uri=True, timeout=5) as db:
            marks = ",".join("?" * len(kinds))
            return db.execute(f"SELECT kind, job, device, inputs, why FROM journal WHERE kind IN ({marks}) ORDER BY n", kinds).fetchall()
    except sqlite3.Error:
        return []


def wait_for(folder, kind, count, process, seconds=60):
    end = time.time() + seconds
    while time.time() < end and process.poll() is None:
        if len(journal(folder, [kind])) >= count:
            return True
        time.sleep(0.05)
    return len(journal(folder, [kind])) >= count


def workers_of(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        found += [int(c) for c in (task / "children").read_text().split()]
    return found


def killed_engine(folder):
    """kill -9 and an interrupt, then --resume: every job ends once, with all its inputs."""
    rows = [(f"j{i}", "steady", 2, 160, i * 0.1) for i in range(6)] + [("last", "tiny", 1, 50, 0.5)]
    start = fresh(folder, rows, "--policy", "round-robin,mct")
    for chunks, end in ((3, signal.SIGKILL), (9, signal.SIGINT)):
        process = subprocess.Popen(start, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        expect(wait_for(folder, "chunk", chunks, process), "no chunk was done before the kill")
        children = workers_of(process.pid)
        process.send_signal(end)
        said = process.communicate()[1]
        if end == signal.SIGINT:
            expect(process.returncode == 130 and "--resume --state" in said, f"interrupted: {process.returncode} {said}")
        time.sleep(0.3)
        alive = [c for c in children if pathlib.Path(f"/proc/{c}/stat").exists()
                 and pathlib.Path(f"/proc/{c}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"]
        expect(not alive, f"workers {alive} outlived the engine")
        start = command(folder, "--resume")
    again = subprocess.run(fresh(folder, rows), capture_output=True, text=True)
    expect(again.returncode == 2 and "--resume" in again.stderr, "an open queue must not be thrown away unasked")
    done = subprocess.run(start, capture_output=True, text=True, timeout=200)
    expect(done.returncode == 0, f"--resume: {done.returncode} {done.stderr}")
    result = json.loads(done.stdout)
    expect([p["name"] for p in result["policies"]] == ["round-robin", "mct"], "policies are missing")
    for policy in result["policies"]:
        expect(policy["finished"] == len(rows), f"{policy['name']}: {policy['finished']} of {len(rows)} finished")
    with sqlite3.connect(f"{folder}/state/hase.db") as db:
        ends = db.execute("SELECT run, job, COUNT(*) FROM journal WHERE kind = 'finished' AND why != 'part' GROUP BY run, job").fetchall()
        most = db.execute("SELECT job, MAX(inputs) FROM journal WHERE kind = 'chunk' GROUP BY run, job").fetchall()
    expect(len(ends) == 2 * len(rows), f"{len(ends)} jobs ended")
    expect(all(count == 1 for _, _, count in ends), f"a job ended twice: {ends}")
    wanted = {name: inputs for name, _, _, inputs, _ in rows}
    expect(all(inputs == wanted[job] for job, inputs in most), f"inputs done: {most}")


def killed_worker(folder):
    """A worker killed once: the job goes on from its last chunk. Twice: it fails with the reason."""
    rows = [("victim", "steady", 2, 600, 0), ("other", "tiny", 1, 60, 0), ("late", "tiny", 1, 60, 4)]
    process = subprocess.Popen(fresh(folder, rows, "--policy", "mct"), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    expect(wait_for(folder, "finished", 1, process), "the other job did not finish")
    for _ in range(2):
        count = len(journal(folder, ["chunk"]))
        expect(wait_for(folder, "chunk", count + 2, process), "no chunk was done before the kill")
        failed = len(journal(folder, ["failed"]))
        for worker in workers_of(process.pid):
            with contextlib.suppress(ProcessLookupError):  # the other job's worker may just have ended
                os.kill(worker, signal.SIGKILL)
        expect(wait_for(folder, "failed", failed + 1, process), "the kill was not noticed")
    out, err = process.communicate(timeout=120)
    expect(process.returncode == 1, f"status {process.returncode}: {err}")
    policy = json.loads(out)["policies"][0]
    expect(policy["finished"] == 2 and policy["failed"] == 1, f"{policy}")
    expect(any("signal 9" in f["why"] for f in policy["failures"]), f"no reason given: {policy['failures']}")
    starts = [e for e in journal(folder, ["started"]) if e[1] == "victim"]
    chunks = [e[3] for e in journal(folder, ["chunk"]) if e[1] == "victim"]
    expect(len(starts) == 2, f"the victim was started {len(starts)} times")
    expect(chunks == sorted(chunks) and len(set(chunks)) == len(chunks), f"chunks were repeated: {chunks}")


def bad_model(folder):
    """A model that does not load fails alone."""
    rows = [("bad", "broken", 1, 10, 0), ("good", "tiny", 1, 10, 0)]
    done = subprocess.run(fresh(folder, rows, "--policy", "mct"), capture_output=True, text=True, timeout=60)
    expect(done.returncode == 1, f"status {done.returncode}: {done.stderr}")
    policy = json.loads(done.stdout)["policies"][0]
    expect(policy["finished"] == 1 and policy["failed"] == 1, f"{policy}")
    expect("broken.onnx" in json.dumps(policy["failures"]), f"{policy['failures']}")


def bad_usage(folder):
    for arguments, status, text in (([], 2, "--cluster"), (["--resume"], 2, "no queue"),
                                    (["--cluster", "absent.yaml", "--jobs", "absent.csv"], 1, "absent")):
        done = subprocess.run(command(folder, *arguments), capture_output=True, text=True)
        expect(done.returncode == status and text in done.stderr, f"{arguments}: {done.returncode} {done.stderr}")
        expect(done.stderr.count("\n") == 1, f"{arguments}: more than one line: {done.stderr}")


def refused(folder):
    """What cannot run leaves the finished queue as it was; --discard alone forgets an open one."""
    start = fresh(folder, [("only", "tiny", 1, 10, 0)], "--policy", "mct")
    subprocess.run(start, capture_output=True, timeout=60)
    kept = journal(folder, ["arrived", "started", "chunk", "finished"])
    expect(len(kept) >= 4, f"the first run did not finish: {kept}")
    (folder / "gpus.yaml").write_text("nodes:\n  - name: here\n    devices: [{type: T4, count: 2}]\n")
    (folder / "core.yaml").write_text("nodes:\n  - name: here\n    devices: [{type: cpu, cores: [4095]}]\n")
    for more, status in ((["--policy", "mct,foo"], 2), (["--cluster", str(folder / "gpus.yaml")], 1),
                         (["--cluster", str(folder / "core.yaml")], 1)):
        if "gpus" in more[-1] and pathlib.Path("/dev/nvidia0").exists():
            continue
        rest = start[:-2] if more[0] == "--policy" else [a for a in start if a not in ("--cluster", str(folder / "cluster.yaml"))]
        done = subprocess.run([*rest, *more], capture_output=True, text=True, timeout=60)
        expect(done.returncode == status, f"{more}: {done.returncode} {done.stderr}")
        expect(journal(folder, ["arrived", "started", "chunk", "finished"]) == kept, f"{more}: the old run is gone")
    none = subprocess.run(command(folder, "--discard"), capture_output=True, text=True)
    expect(none.returncode == 2 and "no queue" in none.stderr, f"--discard of nothing: {none.returncode} {none.stderr}")
    with sqlite3.connect(f"{folder}/state/hase.db") as db:
        db.execute("UPDATE runs SET result = '{'")
    broken = subprocess.run(command(folder, "--resume"), capture_output=True, text=True)
    expect(broken.returncode == 1 and "hase.db" in broken.stderr and broken.stderr.count("\n") == 1,
           f"a damaged result: {broken.returncode} {broken.stderr}")
    with sqlite3.connect(f"{folder}/state/hase.db") as db:
        db.execute("UPDATE runs SET done = 0")
    done = subprocess.run(command(folder, "--discard"), capture_output=True, text=True)
    expect(done.returncode == 0 and not journal(folder, ["arrived"]), f"--discard: {done.returncode} {done.stderr}")
    done = subprocess.run(command(folder, "--resume"), capture_output=True, text=True)
    expect(done.returncode == 2 and "no queue" in done.stderr, f"--resume of nothing: {done.returncode} {done.stderr}")


def output_that_cannot_be_written(folder):
    """One line and status 1 where standard output is full or closed."""
    expected = "cannot write to standard output"
    for redirect in (">/dev/full", ">&-"):
        done = subprocess.run(["sh", "-c", f'"$0" predict resnet18 --device T4 --json {redirect}', hase],
                              capture_output=True, text=True)
        expect(done.returncode == 1 and expected in done.stderr and done.stderr.count("\n") == 1,
               f"{redirect}: {done.returncode} {done.stderr}")


def predict_only_reads(folder):
    """Predictions need no state folder and make none; what makes them doubtful is told."""
    def predict(*more):
        return subprocess.run([hase, "predict", "--json", "--state", str(folder / "none"), *more],
                              capture_output=True, text=True)
    done = predict("resnet18", "--device", "T4")
    expect(done.returncode == 0 and not done.stderr, f"predict: {done.returncode} {done.stderr}")
    expect(not (folder / "none").exists(), "predict made a state folder")
    done = predict("vgg19", "--device", "K80", "--batch", "4096")
    expect(done.returncode == 0 and "does not fit" in done.stderr and "does not fit" in done.stdout,
           f"a model larger than the card: {done.returncode} {done.stderr}")
    (folder / "cluster.yaml").write_text(CLUSTER)
    done = predict("resnet18", "--cluster", str(folder / "cluster.yaml"))
    expect("no measurement of this machine" in done.stderr, f"nothing measured: {done.stderr}")
    half, quarter = (row["latency_ms"]["p50"] for row in json.loads(done.stdout))
    expect(abs(quarter / half - 2) < 1e-6, f"a quota of 0.25 takes {quarter / half} times one of 0.5")


for test in (bad_usage, predict_only_reads, refused, output_that_cannot_be_written, bad_model, killed_worker, killed_engine):
    count = len(problems)
    with tempfile.TemporaryDirectory() as folder:
        test(pathlib.Path(folder))
    print(f"{test.__name__}: {'ok' if len(problems) == count else 'FAILED'}")
print("\n".join(problems))
sys.exit(1 if problems else 0)
