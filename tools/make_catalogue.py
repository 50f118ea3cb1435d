#!/usr/bin/env python3
"""Writes data/catalogue.csv from a table of transcribed GPU specifications.

  tools/make_catalogue.py [--specs ../shared/data/specs/gpu_specs] [-o data/catalogue.csv]

Two sources meet here. The specification table covers many cards but has known contradictions (its
`flag` column); the VERIFIED table below holds the figures of the cards that tests and data sets use,
compared with the vendor's document named in `source`. Where both speak, VERIFIED wins. Peaks are dense
(no sparsity), in TFLOP/s (TOP/s for int8), at boost clock, per GPU (not per board).

Where a card has no fast path for half precision (Pascal GP10x, Maxwell, Kepler), libraries compute in
fp32 on half-precision storage, so fp16 stands at the fp32 rate. 0 means: no kernels are expected.
"""
import argparse
import csv
import pathlib

COLUMNS = ["name", "aliases", "vendor", "architecture", "compute_capability", "sm_count",
           "cores_per_sm", "base_clock_mhz", "boost_clock_mhz", "memory_gib", "bandwidth_gb_s", "l2_mib",
           "fp32_tflops", "tf32_tflops", "fp16_tflops", "bf16_tflops", "int8_tops", "pcie_gb_s",
           "price_per_hour", "price_source", "verified", "source", "note"]

# table name -> (catalogue name, further aliases). Aliases need no vendor or family prefix: the lookup
# ignores case, punctuation and the words NVIDIA, Tesla, GeForce, Quadro, AMD, Radeon and Instinct.
NAMES = {
    "Tesla K80": ("K80", []), "Tesla K40m": ("K40m", ["K40"]), "Tesla K40c": ("K40c", []),
    "GRID K520": ("K520", ["GRID K520"]),
    "Tesla M40": ("M40", ["NV_M40", "M40 12GB"]), "Tesla M60": ("M60", []),
    "Tesla P4": ("P4", []), "Tesla P40": ("P40", []),
    "Tesla P100 PCIe 16 GB": ("P100-PCIE-16GB", ["P100", "NV_P100"]),
    "Tesla P100 PCIe 12 GB": ("P100-PCIE-12GB", []),
    "Tesla P100 SXM2": ("P100-SXM2-16GB", []),
    "Tesla V100 PCIe 16 GB": ("V100-PCIE-16GB", []),
    "Tesla V100 PCIe 32 GB": ("V100-PCIE-32GB", []),
    "Tesla V100 SXM2 16 GB": ("V100-SXM2-16GB", ["V100", "V100M16", "V100-SXM2"]),
    "Tesla V100 SXM2 32 GB": ("V100-SXM2-32GB", ["V100M32", "NV_V100", "V100-SXM3-32GB", "V100-32GB"]),
    "TITAN V": ("TITAN-V", []),
    "Tesla T4": ("T4", ["NV_T4"]), "TITAN RTX": ("TITAN-RTX", []),
    "Quadro RTX 4000": ("Quadro-RTX-4000", []), "Quadro RTX 5000": ("Quadro-RTX-5000", []),
    "Quadro RTX 6000": ("Quadro-RTX-6000", []), "Quadro RTX 8000": ("Quadro-RTX-8000", []),
    "A100 PCIe 40 GB": ("A100-PCIE-40GB", []),
    "A100 SXM4 40 GB": ("A100-SXM4-40GB", ["A100", "A100-40GB"]),
    "A100 PCIe 80 GB": ("A100-PCIE-80GB", ["A100 80GB PCIe"]),
    "A100 SXM4 80 GB": ("A100-SXM4-80GB", ["A100-80GB"]),
    "A800 SXM4 80 GB": ("A800-SXM4-80GB", ["A800"]),
    "A800 PCIe 80 GB": ("A800-PCIE-80GB", ["A800 80GB PCIe"]),
    "A30 PCIe": ("A30", []), "A10 PCIe": ("A10", []), "A10G": ("A10G", []),
    "A16 PCIe": ("A16", []), "A2 PCIe": ("A2", []), "A40 PCIe": ("A40", []),
    "RTX A4000": ("RTX-A4000", []), "RTX A5000": ("RTX-A5000", []), "RTX A6000": ("RTX-A6000", []),
    "L4": ("L4", []), "L40": ("L40", []), "L40S": ("L40S", []),
    "RTX 6000 Ada Generation": ("RTX-6000-Ada", ["RTX 6000 Ada Generation"]),
    "H100 PCIe 80 GB": ("H100-PCIE-80GB", ["H100 PCIe"]),
    "H100 SXM5 80 GB": ("H100-SXM5-80GB", ["H100", "H100 80GB HBM3", "H100 SXM"]),
    "H100 NVL 94 GB": ("H100-NVL-94GB", ["H100 NVL"]),
    "H200 SXM 141 GB": ("H200-SXM5-141GB", ["H200", "H200 SXM"]),
    "H800 PCIe 80 GB": ("H800-PCIE-80GB", ["H800 PCIe"]), "H800 SXM5": ("H800-SXM5-80GB", ["H800"]),
    "B200": ("B200", []),
    "RTX PRO 6000 Blackwell Max-Q": ("RTX-PRO-6000-Blackwell-Max-Q",
                                     ["pro6000maxq",
                                      "RTX PRO 6000 Blackwell Max-Q Workstation Edition"]),
    "GeForce GTX TITAN X": ("GTX-TITAN-X", ["NV_TitanX"]),
    "TITAN X Pascal": ("TITAN-X-Pascal", ["TITAN X", "NV_TitanX_Pascal", "TITAN X (Pascal)"]),
    "TITAN Xp": ("TITAN-Xp", ["NV_TitanXp"]),
    "GeForce GTX 1080 Ti": ("GTX-1080-Ti", ["1080 Ti", "NV_1080Ti"]),
    "GeForce RTX 2080 Ti": ("RTX-2080-Ti", ["2080 Ti"]),
    "GeForce RTX 3080": ("RTX-3080", ["3080"]), "GeForce RTX 3090": ("RTX-3090", ["3090"]),
    "GeForce RTX 4090": ("RTX-4090", ["4090"]), "GeForce RTX 5090": ("RTX-5090", ["5090"]),
    "GeForce RTX 4060 Ti 8 GB": ("RTX-4060-Ti-8GB", ["RTX 4060 Ti"]),
    "Radeon Instinct MI25": ("MI25", ["AMD_MI25", "gfx900 64CU"]),
    "Radeon Instinct MI50": ("MI50", ["gfx906 60CU"]), "Radeon Instinct MI60": ("MI60", ["gfx906 64CU"]),
    "Radeon Instinct MI100": ("MI100", ["gfx908 120CU (0x78)"]),
    "Radeon Instinct MI210": ("MI210", ["gfx90a 104CU (0x68)"]),
    "Radeon Instinct MI250": ("MI250", []), "Radeon Instinct MI250X": ("MI250X", ["gfx90a 110CU (0x6e)"]),
    "Radeon Instinct MI300X": ("MI300X", ["gfx942 304CU (0x130)"]), "Radeon Instinct MI300": ("MI300", []),
    "Radeon RX 6800 XT": ("RX-6800-XT", ["gfx1030 36WGP"]),
    "Radeon RX Vega 56": ("RX-Vega-56", ["gfx900 56CU"]), "Radeon RX Vega 64": ("RX-Vega-64", []),
}

# Compared by hand with the document in `source`; a field not given keeps the table's figure.
VERIFIED = {
    "K80": dict(boost_clock_mhz=875, fp32_tflops=4.37, fp16_tflops=4.37, bandwidth_gb_s=240,
                source="Tesla K80 board specification BD-07317",
                note="one GPU of the two on the board"),
    "P4": dict(base_clock_mhz=810, boost_clock_mhz=1114, fp32_tflops=5.5, fp16_tflops=5.5, int8_tops=22,
               bandwidth_gb_s=192, source="Tesla P4 data sheet",
               note="20 SM × 128 cores; data sheet 5.5 TFLOP/s"),
    "P100-PCIE-16GB": dict(boost_clock_mhz=1303, fp32_tflops=9.3, fp16_tflops=18.7, bandwidth_gb_s=732,
                           source="Tesla P100 data sheet"),
    "P100-SXM2-16GB": dict(fp32_tflops=10.6, fp16_tflops=21.2, bandwidth_gb_s=732,
                           source="Tesla P100 data sheet"),
    "V100-PCIE-16GB": dict(fp32_tflops=14.0, fp16_tflops=112, int8_tops=56, bandwidth_gb_s=900,
                           source="V100 data sheet; int8 by dp4a = 4 × fp32"),
    "V100-PCIE-32GB": dict(fp32_tflops=14.0, fp16_tflops=112, int8_tops=56, bandwidth_gb_s=900,
                           source="V100 data sheet; int8 by dp4a = 4 × fp32"),
    "V100-SXM2-16GB": dict(boost_clock_mhz=1530, fp32_tflops=15.7, fp16_tflops=125, int8_tops=62.8,
                           bandwidth_gb_s=900, source="V100 data sheet; int8 by dp4a = 4 × fp32"),
    "V100-SXM2-32GB": dict(fp32_tflops=15.7, fp16_tflops=125, int8_tops=62.8, bandwidth_gb_s=900,
                           source="V100 data sheet; int8 by dp4a = 4 × fp32"),
    "T4": dict(fp32_tflops=8.1, fp16_tflops=65, int8_tops=130, bandwidth_gb_s=320,
               source="Tesla T4 data sheet; Turing architecture white paper"),
    "A10": dict(fp32_tflops=31.2, tf32_tflops=62.5, fp16_tflops=125, bf16_tflops=125, int8_tops=250,
                bandwidth_gb_s=600, source="A10 data sheet"),
    "A100-PCIE-40GB": dict(fp32_tflops=19.5, tf32_tflops=156, fp16_tflops=312, bf16_tflops=312,
                           int8_tops=624, bandwidth_gb_s=1555, l2_mib=40, source="A100 data sheet"),
    "A100-SXM4-40GB": dict(fp32_tflops=19.5, tf32_tflops=156, fp16_tflops=312, bf16_tflops=312,
                           int8_tops=624, bandwidth_gb_s=1555, l2_mib=40, source="A100 data sheet"),
    "A100-PCIE-80GB": dict(fp32_tflops=19.5, tf32_tflops=156, fp16_tflops=312, bf16_tflops=312,
                           int8_tops=624, bandwidth_gb_s=1935, l2_mib=40, source="A100 data sheet"),
    "A100-SXM4-80GB": dict(fp32_tflops=19.5, tf32_tflops=156, fp16_tflops=312, bf16_tflops=312,
                           int8_tops=624, bandwidth_gb_s=2039, l2_mib=40, source="A100 data sheet"),
    "L4": dict(sm_count=58, cores_per_sm=128, fp32_tflops=30.3, tf32_tflops=60, fp16_tflops=121,
               bf16_tflops=121, int8_tops=242, bandwidth_gb_s=300, l2_mib=48,
               source="L4 data sheet (its tensor figures are with sparsity: halved)"),
    "L40S": dict(fp32_tflops=91.6, tf32_tflops=183, fp16_tflops=362, bf16_tflops=362, int8_tops=733,
                 bandwidth_gb_s=864, l2_mib=96, source="L40S data sheet; Ada white paper for L2"),
    "H100-PCIE-80GB": dict(fp32_tflops=51.2, tf32_tflops=378, fp16_tflops=756, bf16_tflops=756,
                           int8_tops=1513, bandwidth_gb_s=2039, l2_mib=50,
                           source="H100 PCIe product brief PB-11133 (dense = half of the sparse figures)"),
    "H100-SXM5-80GB": dict(fp32_tflops=66.9, tf32_tflops=494.7, fp16_tflops=989.4, bf16_tflops=989.4,
                           int8_tops=1979, bandwidth_gb_s=3350, l2_mib=50,
                           source="Hopper white paper (dense)"),
    "H200-SXM5-141GB": dict(fp32_tflops=66.9, tf32_tflops=494.7, fp16_tflops=989.4, bf16_tflops=989.4,
                            int8_tops=1979, bandwidth_gb_s=4800, l2_mib=50,
                            source="H200 data sheet (dense = half of the sparse figures)"),
    "RTX-3090": dict(fp32_tflops=35.6, tf32_tflops=35.6, fp16_tflops=142, bf16_tflops=71.2,
                     int8_tops=284, bandwidth_gb_s=936,
                     source="GA102 white paper (fp16 with fp16 accumulate; 71 with fp32)"),
    "RTX-2080-Ti": dict(fp32_tflops=13.4, fp16_tflops=107.6, int8_tops=215.2, bandwidth_gb_s=616,
                        source="Turing white paper, reference clocks (fp16 with fp16 accumulate)"),
    "GTX-1080-Ti": dict(fp32_tflops=11.3, fp16_tflops=11.3, int8_tops=45.2, bandwidth_gb_s=484,
                        source="GeForce GTX 1080 Ti product page; int8 by dp4a = 4 × fp32"),
}
# Not compared in full, but where the rule below is known to be wrong.
CORRECTED = {
    "B200": dict(memory_gib=180, bandwidth_gb_s=8000, l2_mib=126, sm_count=148, fp32_tflops=75,
                 tf32_tflops=1125, fp16_tflops=2250, bf16_tflops=2250, int8_tops=4500,
                 note="the module (two dies); the table describes one"),
    "RTX-5090": dict(tf32_tflops=104.8, fp16_tflops=419, bf16_tflops=209.5, int8_tops=838),
    "RTX-PRO-6000-Blackwell-Max-Q": dict(tf32_tflops=219.5, fp16_tflops=438.9, bf16_tflops=438.9,
                                         int8_tops=877.8),
    "A800-PCIE-80GB": dict(l2_mib=40), "L40": dict(l2_mib=96),
    "H100-NVL-94GB": dict(tf32_tflops=417.5, fp16_tflops=835, bf16_tflops=835, int8_tops=1670),
    "MI25": dict(int8_tops=0), "MI100": dict(fp32_tflops=46.1, bf16_tflops=92.3, int8_tops=184.6,
                                                note="fp32 by matrix cores"),
    "MI210": dict(fp32_tflops=45.3, fp16_tflops=181, bf16_tflops=181, int8_tops=181,
                  note="fp32 by matrix cores"),
    "MI250": dict(sm_count=104, memory_gib=64, bandwidth_gb_s=1638, l2_mib=8, fp32_tflops=45.3,
                  fp16_tflops=181, bf16_tflops=181, int8_tops=181, note="one GCD of the two"),
    "MI250X": dict(sm_count=110, memory_gib=64, bandwidth_gb_s=1638, l2_mib=8, fp32_tflops=47.9,
                   fp16_tflops=191.5, bf16_tflops=191.5, int8_tops=191.5, note="one GCD of the two"),
    "MI300X": dict(bandwidth_gb_s=5300, l2_mib=4, fp32_tflops=163.4, tf32_tflops=653.7,
                   fp16_tflops=1307, bf16_tflops=1307, int8_tops=2615),
    "RX-6800-XT": dict(sm_count=72, cores_per_sm=64, note="72 CUs (the table's column is not CUs)"),
}
# Indicative on-demand list prices of one GPU, US regions, in dollars per hour; they age: look again.
PRICES = {
    "K80": (0.45, "Google Compute Engine GPU pricing"), "P4": (0.60, "Google Compute Engine GPU pricing"),
    "P100-PCIE-16GB": (1.46, "Google Compute Engine GPU pricing"),
    "V100-SXM2-16GB": (2.48, "Google Compute Engine GPU pricing"),
    "V100-SXM2-32GB": (3.90, "AWS p3dn.24xlarge / 8"),
    "V100-PCIE-16GB": (3.06, "Azure NC6s v3"), "M60": (0.75, "AWS g3s.xlarge"),
    "T4": (0.35, "Google Compute Engine GPU pricing"), "A10": (3.20, "Azure NV36ads A10 v5"),
    "A10G": (1.01, "AWS g5.xlarge"), "A100-SXM4-40GB": (2.93, "Google Compute Engine GPU pricing"),
    "A100-PCIE-80GB": (3.67, "Azure NC24ads A100 v4"),
    "A100-SXM4-80GB": (5.07, "Google a2-ultragpu-1g"), "L4": (0.71, "Google g2-standard-4"),
    "L40S": (1.86, "AWS g6e.xlarge"), "H100-SXM5-80GB": (11.06, "Google a3-highgpu-8g / 8"),
    "H100-NVL-94GB": (6.98, "Azure NC40ads H100 v5"), "H200-SXM5-141GB": (10.60, "Azure ND96isr H200 v5 / 8"),
}
PCIE = {"3.0 x16": 15.75, "4.0 x16": 31.5, "4.0 x8": 15.75, "5.0 x16": 63.0}


def number(text):
    return float(text) if text not in ("", None) else 0.0


def rates(row, capability):
    """(fp32, tf32, fp16, bf16, int8) by the architecture's ratios; VERIFIED overrides."""
    fp32, plain16 = number(row["fp32_tflops"]), number(row["fp16_nontensor_tflops"])
    tensor = number(row["tensor_fp16_dense_tflops_derived"])
    if row["vendor"] != "NVIDIA":
        return fp32, 0, plain16 or fp32, 0, 0
    dp4a = 4 * fp32 if capability in (61, 70, 72) else 0  # no dp4a before 6.1 and on 6.0
    if capability >= 80:
        geforce = row["name"].startswith("GeForce") and capability in (86, 89)
        bf16 = tensor / 2 if geforce else tensor
        return fp32, bf16 / 2, tensor, bf16, 2 * tensor
    if tensor:
        return fp32, 0, tensor, 0, 2 * tensor if capability >= 75 else dp4a
    return fp32, 0, max(plain16 if capability == 60 else 0, fp32), 0, dp4a


def entry(row):
    name, aliases = NAMES[row["name"]]
    capability = int(round(number(row["cuda_cc"]) * 10))
    sm = int(number(row["sm_count"]))
    fp32, tf32, fp16, bf16, int8 = rates(row, capability)
    values = dict(
        name=name, aliases=[row["name"], *aliases], vendor=row["vendor"],
        architecture=row["arch"].split(" ")[0] if row["vendor"] == "NVIDIA" else row["arch"],
        compute_capability=capability, sm_count=sm,
        cores_per_sm=int(number(row["fp32_cores"]) / sm), base_clock_mhz=int(number(row["base_clock_mhz"])),
        boost_clock_mhz=int(number(row["boost_clock_mhz"])), memory_gib=number(row["mem_gb"]),
        bandwidth_gb_s=number(row["mem_bw_gb_s"]), l2_mib=number(row["l2_mb"]), fp32_tflops=fp32,
        tf32_tflops=tf32, fp16_tflops=fp16, bf16_tflops=bf16, int8_tops=int8,
        pcie_gb_s=PCIE[row["bus"].removeprefix("PCIe ")], verified=0,
        source="transcribed specification table (not compared with a data sheet)", note=row["flag"])
    if values["cores_per_sm"] == 0:
        values["cores_per_sm"] = 192
    values.update(CORRECTED.get(name, {}))
    if name in VERIFIED:
        values.update(note="", verified=1)
        values.update(VERIFIED[name])
    price, where = PRICES.get(name, (0, ""))
    values.update(price_per_hour=price, price_source=f"indicative: {where}" if where else "")
    return values


def alias_rows(path, values):
    """Names used by the data sets, where they say more than the card's own names do."""
    known = {v: k for k, (v, _) in NAMES.items()}
    by_hand = {alias for _, aliases in NAMES.values() for alias in aliases}
    owners = {}
    for row in csv.DictReader(path.open()):
        owners.setdefault(row["name_in_dataset"], set()).add(row["spec_name"])
    for value in values:
        mine = known[value["name"]]
        value["aliases"] += [a for a, specs in owners.items() if specs == {mine} and a not in by_hand]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--specs", type=pathlib.Path, default="../shared/data/specs/gpu_specs")
    parser.add_argument("-o", "--output", type=pathlib.Path, default="data/catalogue.csv")
    options = parser.parse_args()
    table = csv.DictReader((options.specs / "gpu_specs.csv").open())
    values = [entry(row) for row in table if row["name"] in NAMES]
    missing = set(NAMES) - {value["aliases"][0] for value in values}
    assert not missing, f"not in the table: {missing}"
    alias_rows(options.specs / "gpu_aliases.csv", values)
    values.sort(key=lambda v: (v["vendor"] != "NVIDIA", v["compute_capability"], v["name"]))
    claimed = set()
    normal = lambda text: "".join(c for c in text.lower() if c.isalnum())
    own = {normal(v["name"]) for v in values}
    with options.output.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for value in values:
            kept = []
            for alias in value["aliases"]:
                if normal(alias) in claimed | own or "," in alias:
                    continue
                claimed.add(normal(alias))
                kept.append(alias)
            value["aliases"] = "|".join(kept)
            for key, cell in value.items():
                if isinstance(cell, float):
                    value[key] = f"{cell:.6g}"
            writer.writerow(value)


main()
