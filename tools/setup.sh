#!/usr/bin/env bash
# Installs what the build and the tests need on Debian 12 (or a derivative), idempotently:
# Debian packages by name, ONNX Runtime's headers (Debian 13 package) and library (the official
# build inside the npm package onnxruntime-node), both checked against a hash. Writes only
# third_party/ in this checkout, and the system's packages. Needs root (or sudo) for apt only.
#
#   tools/setup.sh              build + unit tests
#   tools/setup.sh --checks     also clang 19 with sanitizers, format and tidy (CI, development)
#   tools/setup.sh --browser    also Chromium, for the report test
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ cmake ninja-build ccache pkg-config git ca-certificates xz-utils python3 npm
  libfmt-dev nlohmann-json3-dev libyaml-cpp-dev libsqlite3-dev libcli11-dev liblzma-dev
  libonnx-dev libprotobuf-dev protobuf-compiler libxgboost-dev libcpp-httplib-dev
  coinor-libclp-dev coinor-libcbc-dev libgtest-dev libgmock-dev libbenchmark-dev)
for flag in "$@"; do
  case "$flag" in
    --checks) packages+=(clang-19 clang-tidy-19 clang-format-19 libclang-rt-19-dev) ;;
    --browser) packages+=(chromium) ;;
    *) echo "setup.sh: unknown flag '$flag' (known: --checks, --browser)" >&2; exit 2 ;;
  esac
done

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
missing=()
for package in "${packages[@]}"; do
  # npm may come with a Node.js from elsewhere: the command is what we need.
  [ "$package" = npm ] && command -v npm >/dev/null && continue
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ "${#missing[@]}" -gt 0 ]; then
  echo "setup: installing ${missing[*]}"
  as_root apt-get update -q
  DEBIAN_FRONTEND=noninteractive as_root apt-get install -q -y --no-install-recommends "${missing[@]}"
fi

source tools/onnxruntime.lock
source tools/echarts.lock
check() { # file sha256
  echo "$2  $1" | sha256sum --check --quiet - || { echo "setup.sh: $1 has the wrong hash" >&2; exit 1; }
}

# --- Apache ECharts: the report's charts, put into the binary at build time ----------------------
if [ ! -e "third_party/echarts/.$ECHARTS_VERSION" ]; then
  echo "setup: Apache ECharts $ECHARTS_VERSION"
  fetched=$(mktemp -d)
  (cd "$fetched" && npm pack --loglevel=error "echarts@$ECHARTS_VERSION" >/dev/null) ||
    { echo "setup.sh: npm could not fetch echarts@$ECHARTS_VERSION (see above)" >&2; exit 1; }
  check "$fetched/echarts-$ECHARTS_VERSION.tgz" "$ECHARTS_SHA256"
  rm -rf third_party/echarts
  mkdir -p third_party/echarts
  tar -xzf "$fetched/echarts-$ECHARTS_VERSION.tgz" -C third_party/echarts --strip-components=1 \
    package/LICENSE package/NOTICE
  tar -xzf "$fetched/echarts-$ECHARTS_VERSION.tgz" -C third_party/echarts --strip-components=2 \
    package/dist/echarts.min.js
  rm -rf "$fetched"
  touch "third_party/echarts/.$ECHARTS_VERSION"
fi

# --- ONNX Runtime -------------------------------------------------------------------------------
if [ -n "${ONNXRUNTIME_ROOT:-}" ]; then
  echo "setup: using ONNX Runtime in $ONNXRUNTIME_ROOT"
  exit 0
fi
home=third_party/onnxruntime
stamp="$home/.$ORT_NPM_VERSION-$ORT_HEADERS_VERSION"
[ -e "$stamp" ] && exit 0
case "$(uname -m)" in
  x86_64) arch=x64 ;;
  aarch64) arch=arm64 ;;
  *) echo "setup.sh: no official ONNX Runtime build is pinned for $(uname -m);" \
          "set ONNXRUNTIME_ROOT to one of your own" >&2; exit 1 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

echo "setup: ONNX Runtime $ORT_NPM_VERSION library"
(cd "$work" && npm pack --loglevel=error "onnxruntime-node@$ORT_NPM_VERSION" >/dev/null) ||
  { echo "setup.sh: npm could not fetch onnxruntime-node@$ORT_NPM_VERSION (see above)" >&2; exit 1; }
check "$work/onnxruntime-node-$ORT_NPM_VERSION.tgz" "$ORT_NPM_SHA256"
tar -xzf "$work/onnxruntime-node-$ORT_NPM_VERSION.tgz" -C "$work" \
  "package/bin/napi-v6/linux/$arch/libonnxruntime.so.1"

echo "setup: ONNX Runtime $ORT_HEADERS_VERSION headers"
# A private apt state that asks this machine's own Debian mirror for one suite later.
state="$work/apt"
mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
sources=""
for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
  [ -s "$file" ] && grep -q bookworm "$file" && { sources="$file"; break; }
done
[ -n "$sources" ] || { echo "setup.sh: found no Debian 12 source in /etc/apt" >&2; exit 1; }
sed -E 's/bookworm-(updates|security)//g; s/bookworm/trixie/g' "$sources" |
  sed -E '/^deb .*(security|-updates)/d' > "$work/trixie.${sources##*.}"
# deb822 files may hold a second stanza for security updates; its suite is empty now, so drop it.
if [ "${sources##*.}" = sources ]; then
  python3 - "$work/trixie.sources" <<'PY'
import pathlib, re, sys
path = pathlib.Path(sys.argv[1])
stanzas = re.split(r"\n\s*\n", path.read_text())
path.write_text("\n\n".join(s for s in stanzas if re.search(r"^Suites:.*trixie", s, re.M)) + "\n")
PY
fi
apt_private=(-o "Dir::State::Lists=$state/lists" -o "Dir::Cache=$state/cache"
  -o "Dir::Etc::sourcelist=$work/trixie.${sources##*.}" -o Dir::Etc::sourceparts=-
  -o APT::Sandbox::User=root -o Acquire::Languages=none)
apt-get "${apt_private[@]}" update -q >/dev/null
(cd "$work" && apt-get "${apt_private[@]}" download -q "libonnxruntime-dev=$ORT_HEADERS_VERSION")
deb=$(ls "$work"/libonnxruntime-dev_*.deb)
dpkg -x "$deb" "$work/headers"
headers=$(dirname "$(find "$work/headers" -name onnxruntime_c_api.h | head -1)")
[ "$(cd "$headers" && find . -name '*.h' | LC_ALL=C sort | xargs cat | sha256sum | cut -d' ' -f1)" = \
  "$ORT_HEADERS_SHA256" ] || { echo "setup.sh: ONNX Runtime headers have the wrong hash" >&2; exit 1; }

rm -rf "$home"
mkdir -p "$home/include" "$home/lib"
cp -r "$headers/." "$home/include/"
cp "$work/package/bin/napi-v6/linux/$arch/libonnxruntime.so.1" "$home/lib/"
ln -s libonnxruntime.so.1 "$home/lib/libonnxruntime.so"
touch "$stamp"
echo "setup: done"
