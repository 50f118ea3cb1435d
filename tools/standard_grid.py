#!/usr/bin/env python3
"""The standard set: every case by `hase simulate --json`, into a file of one line per case.

    tools/standard_grid.py run --out grid.jsonl [--sets paper,bars,full,sizes,ablation,parts] [--seeds 10]
    tools/standard_grid.py table grid.jsonl... > docs/scheduler-grid.md
    tools/standard_grid.py summary grid.jsonl...

Resumable: a case that is in the file is not run again; a new file for a new policy, since the file does
not know which binary wrote it. Progress goes to stderr. Tables are means over seeds with 95 % intervals
(Student's t).
"""
import argparse, concurrent.futures, json, math, os, signal, subprocess, sys, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RIVALS = ["round-robin", "random", "fifo", "least-loaded", "least-allocated", "most-allocated",
          "sjf", "mct", "lpt-mct", "spt-mct", "min-min", "edf", "gavel-lp"]
SHARING = ["fifo:sharing=on", "mct:sharing=on", "lpt-mct:sharing=on", "spt-mct:sharing=on"]
HASE = ["hase", "hase:objective=completion", "hase:objective=fair", "hase:sharing=off",
        "hase:objective=completion,sharing=off"]
FEW = ["hase", "hase:objective=completion", "round-robin", "lpt-mct", "spt-mct"]
ABLATIONS = ["hase"] + ["hase:" + o for o in (
    "backfill=off", "reservation=off", "interference=off", "estimates=spec", "quantile=off",
    "chunking=off", "sharing=off")] + ["round-robin"]
# Mixes in which one part matters by design; the standard mix asks little of it.
HURT = "jobs=640,gang=0,exclusive=0,batches=32|64,models=densenet121|densenet201|mobilenet_v1|mobilenet_v2"
PARTS = [
    ("interference: large batches that hurt each other, offline", f"offline,{HURT}",
     ["hase", "hase:interference=off", "hase:sharing=off"]),
    ("interference: large batches that hurt each other, load 0.95", f"poisson,load=0.95,{HURT}",
     ["hase", "hase:interference=off", "hase:sharing=off"]),
    ("chunking: 16 divisible jobs, offline", "offline,jobs=16,gang=0,exclusive=0,cut=1",
     ["hase", "hase:chunking=off"]),
    ("chunking: 48 divisible jobs, offline", "offline,jobs=48,gang=0,exclusive=0,cut=1",
     ["hase", "hase:chunking=off"]),
    ("reservations: few gangs in a stream, load 0.95",
     "poisson,load=0.95,jobs=1280,gang=0.03,exclusive=0.2,largest=3,tail=3",
     ["hase", "hase:reservation=off", "hase:objective=completion",
      "hase:objective=completion,reservation=off"]),
]
PAPER = ["hase", "hase:sharing=off", "round-robin", "lpt-mct", "fifo", "mct", "gavel-lp"]
# Jobs small against the bound, as the bars ask (no job above 2 % of it).
SMALL = "largest=1.3,tail=6,gang=0,exclusive=0.22"


def cluster(gpus):
    return f"examples/standard/{gpus}.yaml"


def arrivals(load):
    return "offline" if load == 0 else f"poisson,load={load}"


def cases(sets, seeds):
    """(set, label, cluster, generator, world, seed, policies)"""
    for seed in range(1, seeds + 1):
        for world in ("W3", "W2"):
            if "full" in sets:
                for per in (5, 50):
                    for load in (0, 0.5, 0.8, 0.95, 1.2):
                        yield ("full", f"{per} jobs/GPU, " + (f"load {load}" if load else "offline"),
                               cluster(32), f"{arrivals(load)},jobs={32 * per}", world, seed,
                               RIVALS + SHARING + HASE)
            if "bars" in sets:
                for load in (0, 0.95):
                    yield ("bars", "200 small jobs/GPU, " + (f"load {load}" if load else "offline"),
                           cluster(32), f"{arrivals(load)},jobs=6400,{SMALL}", world, seed,
                           FEW + ["lpt-mct:sharing=on", "spt-mct:sharing=on"])
            if "paper" in sets:
                yield ("paper", "240 jobs, offline", cluster("paper"),
                       "offline,jobs=240,exclusive=0,gang=0,deadline=0,urgent=0", world, seed, PAPER)
            if "ablation" in sets:
                for load in (0, 0.95):
                    yield ("ablation", "standard mix, cut=0.1, " + (f"load {load}" if load else "offline"),
                           cluster(32), f"{arrivals(load)},jobs=640,cut=0.1", world, seed, ABLATIONS)
            if "parts" in sets:
                for label, spec, policies in PARTS:
                    yield ("parts", label, cluster(32), spec, world, seed, policies + ["round-robin"])
            if "sizes" in sets:
                for gpus in (8, 128, 512):
                    if gpus == 512 and seed > 3:
                        continue
                    for load in (0, 0.95):
                        yield ("sizes", f"{gpus} GPUs, 20 jobs/GPU, " + (f"load {load}" if load else "offline"),
                               cluster(gpus), f"{arrivals(load)},jobs={gpus * 20}", world, seed, FEW)


running = set()  # simulations, to be stopped with us


def run_case(hase, case):
    kind, label, file, spec, world, seed, policies = case
    command = [hase, "simulate", "--cluster", file, "--generate", spec, "--world", world, "--seed",
               str(seed), "--policy", ",".join(policies), "--json"]
    begin = time.time()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    running.add(process)
    out, error = process.communicate()
    running.discard(process)
    if process.returncode not in (0, 3):
        raise RuntimeError(f"{' '.join(command)}: {error.strip()}")
    return {"set": kind, "label": label, "key": json.dumps(case), "world": world, "seed": seed,
            "wall_s": time.time() - begin, "result": json.loads(out)}


def read(file, drop_unfinished=False):
    """The rows of a file of results; an unfinished last line is of a run that was cut off."""
    with open(file, "rb") as f:
        lines = f.read().split(b"\n")
    if lines[-1] and drop_unfinished:
        with open(file, "rb+") as f:
            f.truncate(sum(len(line) + 1 for line in lines[:-1]))
        lines[-1] = b""
    rows = []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            rows.append(json.loads(line))
            rows[-1]["set"], rows[-1]["key"], rows[-1]["result"]["policies"]
        except (ValueError, KeyError, TypeError):
            sys.exit(f"{file}:{number}: not a line that `run` wrote")
    return rows


def stop(pool):
    pool.shutdown(wait=False, cancel_futures=True)
    for process in list(running):
        process.terminate()


def run(args):
    sets = args.sets.split(",")
    for name in sets:
        if name not in TITLES:
            sys.exit(f"--sets: no set is named '{name}'; there are {', '.join(TITLES)}")
    done = {row["key"] for row in read(args.out, True)} if os.path.exists(args.out) else set()
    todo = [c for c in cases(sets, args.seeds) if json.dumps(c) not in done]
    begin, finished = time.time(), 0
    pool = concurrent.futures.ThreadPoolExecutor(args.parallel)
    try:
        with open(args.out, "a") as out:
            futures = [pool.submit(run_case, args.hase, c) for c in todo]
            for future in concurrent.futures.as_completed(futures):
                out.write(json.dumps(future.result()) + "\n")
                out.flush()
                finished += 1
                spent = time.time() - begin
                print(f"\r{finished} of {len(todo)} cases, {spent:.0f} s, "
                      f"{spent / finished * (len(todo) - finished):.0f} s to go  ", end="",
                      file=sys.stderr)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        stop(pool)
        print(f"\nstopped after {finished} of {len(todo)} cases; the same command goes on",
              file=sys.stderr)
        sys.exit(130)
    except (OSError, RuntimeError) as error:
        stop(pool)
        sys.exit(f"\n{error}")
    print(file=sys.stderr)


T = [0, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
     2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086]


def interval(values):
    values = [v for v in values if v is not None]  # where a figure has no meaning
    n = len(values)
    if n == 0:
        return math.nan, 0
    mean = sum(values) / n
    if n < 2:
        return mean, 0
    deviation = math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1))
    return mean, deviation / math.sqrt(n) * T[min(n - 1, len(T) - 1)]


def show(values, digits):
    mean, half = interval(values)
    return "-" if math.isnan(mean) else f"{mean:.{digits}f} ± {half:.{digits}f}"


TITLES = {
    "paper": "The paper's claim", "bars": "The bars' mix: small jobs", "full": "The full grid at 32 GPUs",
    "sizes": "Other sizes", "ablation": "Ablations on the standard mix",
    "parts": "Mixes in which one part matters by design"}


def read_groups(files):
    """(set, label, world) -> results by seed, in the order in which they are shown."""
    groups = {}
    for file in files:
        for row in read(file):
            groups.setdefault((row["set"], row["label"], row["world"]), {})[row["seed"]] = row["result"]
    if not groups:
        sys.exit("no results in " + ", ".join(files))
    sets = list(TITLES)
    order = sorted(groups, key=lambda g: (sets.index(g[0]), *by_number(g[1]), g[2] != "W3"))
    return {g: [groups[g][seed] for seed in sorted(groups[g])] for g in order}


def table(args):
    groups = read_groups(args.files)
    print("# The standard set, measured\n\nWritten by `tools/standard_grid.py table`; what it means: "
          "`scheduler.md`. Means over seeds ± 95 % intervals (Student's t).\nThe closed gap is of makespan "
          "offline and from load 1 on, of mean completion below.")
    last = None
    for (kind, label, world), runs in groups.items():
        if kind != last:
            print(f"\n## {TITLES[kind]}\n\n`tools/standard_grid.py run --out grid.jsonl --sets {kind}`")
            last = kind
        print_table(f"{label}, {world}", runs)


def summary(args):
    """Ratios of means over seeds: what the bars ask, one line per case."""
    groups = read_groups(args.files)
    print("| case | seeds | gap | makespan / lpt-mct | without sharing | completion / spt-mct "
          "| without sharing | fair | promises |\n|---|---|---|---|---|---|---|---|---|")
    for (kind, label, world), runs in groups.items():
        names = [p["name"] for p in runs[0]["policies"]]
        mean = {n: tuple(interval([r["policies"][i][key] for r in runs])[0]
                         for key in ("makespan_s", "mean_completion_s")) for i, n in enumerate(names)}

        def ratio(name, of, which):
            return f"{mean[name][which] / mean[of][which]:.3f}" if name in mean and of in mean else ""

        fair = mean.get("hase:objective=fair")
        beaten = [n for n, m in mean.items() if fair and m != fair and m[0] <= fair[0] and m[1] <= fair[1]]
        gap = interval([p["closed_gap"] for r in runs for p in r["policies"] if p["name"] == "hase"])[0]
        made, kept = (sum(p["promises"][k] for r in runs for p in r["policies"] if p["name"] == "hase")
                      for k in ("made", "kept"))
        completion = "hase:objective=completion"
        print(f"| {kind}: {label}, {world} | {len(runs)} | {gap:.3f} | {ratio('hase', 'lpt-mct', 0)} "
              f"| {ratio('hase:sharing=off', 'lpt-mct', 0)} | {ratio(completion, 'spt-mct', 1)} "
              f"| {ratio(completion + ',sharing=off', 'spt-mct', 1)} "
              f"| {'' if not fair else 'beaten by ' + ', '.join(beaten) if beaten else 'on the front'} "
              f"| {f'{kept / made:.3f}' if made else ''} |")


def by_number(label):
    """Sorts "8 GPUs" before "128 GPUs" and "offline" before loads."""
    words = label.replace(",", " ").split()
    return [[(0, float(w), "") if w.replace(".", "").isdigit() else (1, 0, w) for w in words]]


def print_table(title, runs):
    first = runs[0]
    load = interval([r["load"] for r in runs])[0]
    largest = max(r["largest_job_of_bound"] for r in runs)
    print(f"\n**{title}**: {first['devices']} devices, {first['jobs']} jobs, {len(runs)} seeds"
          + (f", measured load {load:.2f}" if load else "")
          + f", largest job {largest * 100:.1f} % of the bound\n")
    print("| policy | closed gap | makespan / bound | against round-robin | completion s | p99 wait s "
          "| missed deadlines | promises kept / promised |")
    print("|---|---|---|---|---|---|---|---|")
    for i, policy in enumerate(first["policies"]):
        ps = [r["policies"][i] for r in runs]
        rr = [next((p["makespan_s"] for p in r["policies"] if p["name"] == "round-robin"), math.nan)
              for r in runs]
        made = sum(p["promises"]["made"] for p in ps)
        promised = sum(p["promises"]["made"] * p["promises"]["promised_probability"] for p in ps)
        promises = (f"{sum(p['promises']['kept'] for p in ps) / made:.3f} / {promised / made:.3f}"
                    if made else "")
        print(f"| {policy['name']} | {show([p['closed_gap'] for p in ps], 3)} "
              f"| {show([p['makespan_s'] / r['lower_bound_s'] for p, r in zip(ps, runs)], 3)} "
              f"| {show([100 * (p['makespan_s'] / b - 1) for p, b in zip(ps, rr)], 1)} % "
              f"| {show([p['mean_completion_s'] for p in ps], 1)} "
              f"| {show([p['p99_wait_s'] for p in ps], 0)} "
              f"| {show([p['deadline_miss'] for p in ps], 3)} | {promises} |")


def positive(text):
    if int(text) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    sub = parser.add_subparsers(required=True)
    r = sub.add_parser("run")
    r.add_argument("--out", required=True)
    r.add_argument("--hase", default=os.path.join(ROOT, "build/release/hase"))
    r.add_argument("--sets", default=",".join(TITLES))
    r.add_argument("--seeds", type=positive, default=10)
    r.add_argument("--parallel", type=positive, default=os.cpu_count())
    r.set_defaults(do=run)
    for name, do in (("table", table), ("summary", summary)):
        t = sub.add_parser(name)
        t.add_argument("files", nargs="+", metavar="file")
        t.set_defaults(do=do)
    args = parser.parse_args()
    try:
        args.do(args)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}")


main()
