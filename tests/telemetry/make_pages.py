#!/usr/bin/env python3
"""Writes the exporter pages of this folder (*.prom). The expectations beside them are by hand.

Names, labels and units are those of dcgm-exporter's default and profiling counters.
"""
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
HELP = {
    "DCGM_FI_DEV_SM_CLOCK": "SM clock frequency (in MHz).",
    "DCGM_FI_DEV_POWER_USAGE": "Power draw (in W).",
    "DCGM_FI_DEV_GPU_UTIL": "GPU utilization (in %).",
    "DCGM_FI_DEV_FB_USED": "Framebuffer memory used (in MiB).",
    "DCGM_FI_PROF_SM_ACTIVE": "The ratio of cycles an SM has at least 1 warp assigned.",
}


def line(metric, labels, value, stamp=None):
    inside = ",".join(f'{k}="{v}"' for k, v in labels.items())
    return f"{metric}{{{inside}}} {value}" + (f" {stamp}" if stamp else "")


def card(i, model="NVIDIA A100-SXM4-80GB", **more):
    return {"gpu": i, "UUID": f"GPU-{i:04d}", "device": f"nvidia{i}", "modelName": model,
            "Hostname": "node7", **more}


def page(rows):
    """rows: (metric, labels, value[, stamp]); grouped by metric with HELP and TYPE, as exporters do."""
    metrics, text = {}, []
    for row in rows:
        metrics.setdefault(row[0], []).append(line(*row))
    for metric, lines in metrics.items():
        text += [f"# HELP {metric} {HELP.get(metric, metric)}", f"# TYPE {metric} gauge", *lines]
    return "\n".join(text) + "\n"


def busy(labels, sm, dram, util, used=20000, stamp=None):
    return [("DCGM_FI_PROF_SM_ACTIVE", labels, sm, stamp), ("DCGM_FI_PROF_DRAM_ACTIVE", labels, dram, stamp),
            ("DCGM_FI_DEV_GPU_UTIL", labels, util, stamp), ("DCGM_FI_DEV_FB_USED", labels, used, stamp)]


eight = []
for i in range(7):
    labels = card(i)
    eight += busy(labels, 0.1 * (i + 1), 0.05 * (i + 1), 10 * (i + 1))
    eight += [("DCGM_FI_DEV_SM_CLOCK", labels, 1410), ("DCGM_FI_DEV_MEM_CLOCK", labels, 1593),
              ("DCGM_FI_DEV_POWER_USAGE", labels, 100.5 + 30 * i), ("DCGM_FI_DEV_FB_FREE", labels, 61000),
              ("DCGM_FI_PROF_SM_OCCUPANCY", labels, 0.04 * (i + 1)),
              ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", labels, 0.03 * (i + 1)),
              ("DCGM_FI_PROF_PCIE_TX_BYTES", labels, 1500000000), ("DCGM_FI_PROF_PCIE_RX_BYTES", labels, 250000000),
              ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", labels, 4 if i == 3 else 0),
              ("DCGM_FI_DEV_XID_ERRORS", labels, 79 if i == 5 else 0),
              ("DCGM_FI_DEV_GPU_TEMP", labels, 41)]
for instance, profile, sm in ((1, "3g.40gb", 0.8), (5, "2g.20gb", 0.0)):
    labels = card(7, GPU_I_PROFILE=profile, GPU_I_ID=instance)
    eight += [("DCGM_FI_PROF_SM_ACTIVE", labels, sm), ("DCGM_FI_PROF_DRAM_ACTIVE", labels, sm / 2),
              ("DCGM_FI_DEV_FB_USED", labels, 10000 if instance == 1 else 12)]
(HERE / "eight_gpus.prom").write_text(page(eight))

shared = []
for pod in ("resnet-a", "resnet-b", "yolo"):
    shared += busy(card(0, "Tesla T4", namespace="ml", pod=pod, container="main"), 0.62, 0.31, 88, 9000)
shared += busy(card(1, "Tesla T4", namespace="ml", pod="alone", container="main"), 0.2, 0.1, 30, 3000)
(HERE / "sharing.prom").write_text(page(shared))

(HERE / "nan.prom").write_text(page(
    busy(card(0), "NaN", 0.2, 50) + busy(card(1), 0.4, "+Inf", 50) + busy(card(2), 0.4, 0.1, 50)))

zeroed = busy(card(0), 0, 0, 97) + [("DCGM_FI_PROF_SM_OCCUPANCY", card(0), 0),
                                    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", card(0), 0),
                                    ("DCGM_FI_DEV_POWER_USAGE", card(0), 371)]
zeroed += busy(card(1), 0, 0, 0) + [("DCGM_FI_DEV_POWER_USAGE", card(1), 58)]
zeroed += [("DCGM_FI_PROF_SM_ACTIVE", card(2), 0), ("DCGM_FI_PROF_DRAM_ACTIVE", card(2), 0),
           ("DCGM_FI_DEV_POWER_USAGE", card(2), 402)]
(HERE / "zeroed.prom").write_text(page(zeroed))

(HERE / "truncated.prom").write_text(page(
    [("DCGM_FI_DEV_GPU_UTIL", card(0), 50), ("DCGM_FI_PROF_SM_ACTIVE", card(0), 0.4321)])[:-4])

old = busy(card(0), 0.5, 0.2, 60, stamp=1_700_000_000_000) + busy(card(1), 0.5, 0.2, 60, stamp=1_700_000_058_000)
(HERE / "old.prom").write_text(page(old))

contradictory = busy(card(0), 1.7, 0.2, 60) + busy(card(1), 0.9, 0.2, 0) + busy(card(2), 0.3, 0.2, 60)
contradictory += [("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", card(2), 0.8),
                  ("DCGM_FI_DEV_FB_USED", card(2, pod="other"), 777)]
(HERE / "contradictory.prom").write_text(page(contradictory))

blank = [("DCGM_FI_PROF_SM_ACTIVE", card(0, "Tesla P4"), 140737488355328),
         ("DCGM_FI_PROF_DRAM_ACTIVE", card(0, "Tesla P4"), 9223372036854775794),
         ("DCGM_FI_DEV_GPU_UTIL", card(0, "Tesla P4"), 35), ("DCGM_FI_DEV_MEM_COPY_UTIL", card(0, "Tesla P4"), 12),
         ("DCGM_FI_DEV_XID_ERRORS", card(0, "Tesla P4"), 2147483632)]
(HERE / "blank.prom").write_text(page(blank))

(HERE / "bad_line.prom").write_text(page(busy(card(0), 0.1, 0.1, 10)).replace('0.1\n# HELP DCGM_FI_DEV_GPU', 'fast\n# HELP DCGM_FI_DEV_GPU'))
(HERE / "open_label.prom").write_text('DCGM_FI_DEV_GPU_UTIL{gpu="0,UUID=GPU-1} 5\n')
