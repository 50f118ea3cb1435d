#include "latency/sample_store.h"

#include <fmt/core.h>
#include <sqlite3.h>
#include <unistd.h>

#include <iterator>

#include "latency/kernel_text.h"

namespace hase::latency {
namespace {

using model::Kernel;

constexpr const char* kSchema = R"(
CREATE TABLE samples (
  id INTEGER PRIMARY KEY, machine TEXT NOT NULL, stored_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
  clock_mhz INTEGER NOT NULL, model TEXT NOT NULL, whole_model INTEGER NOT NULL,
  batch INTEGER NOT NULL, device TEXT NOT NULL, runtime TEXT NOT NULL, source TEXT NOT NULL,
  latency_us REAL NOT NULL, spread REAL NOT NULL, repeats INTEGER NOT NULL,
  share_milli INTEGER NOT NULL, memory_load_bytes INTEGER NOT NULL,
  memory_run_bytes INTEGER NOT NULL, load_time_ns INTEGER NOT NULL,
  name TEXT NOT NULL, op TEXT NOT NULL, op_class TEXT NOT NULL, precision TEXT NOT NULL,
  inputs TEXT NOT NULL, output TEXT NOT NULL, window TEXT NOT NULL, fused_add INTEGER NOT NULL,
  activation TEXT NOT NULL, flops INTEGER NOT NULL, bytes_activations INTEGER NOT NULL,
  bytes_weights INTEGER NOT NULL, bytes_written INTEGER NOT NULL, m INTEGER NOT NULL,
  n INTEGER NOT NULL, k INTEGER NOT NULL, gemm_batch INTEGER NOT NULL);
CREATE INDEX samples_by_device ON samples (machine, device, model, batch);
CREATE TABLE benches (
  id INTEGER PRIMARY KEY, machine TEXT NOT NULL, device TEXT NOT NULL, date TEXT NOT NULL,
  sm_clock_mhz INTEGER NOT NULL, memory_clock_mhz INTEGER NOT NULL, gemm_small REAL NOT NULL,
  gemm_medium REAL NOT NULL, gemm_large REAL NOT NULL, conv3x3 REAL NOT NULL,
  conv1x1 REAL NOT NULL, depthwise REAL NOT NULL, copy_small REAL NOT NULL,
  copy_medium REAL NOT NULL, copy_large REAL NOT NULL, launch_us REAL NOT NULL,
  host_to_device_gb_s REAL NOT NULL);
PRAGMA user_version = 1;
)";
// How warm a kernel's memory was; 0 in rows of before.
constexpr const char* kSecondSchema = R"(
ALTER TABLE samples ADD COLUMN reuse_activations INTEGER NOT NULL DEFAULT 0;
ALTER TABLE samples ADD COLUMN reuse_weights INTEGER NOT NULL DEFAULT 0;
ALTER TABLE samples ADD COLUMN reuse_output INTEGER NOT NULL DEFAULT 0;
PRAGMA user_version = 2;
)";

constexpr const char* kColumns =
    "model, whole_model, batch, device, runtime, source, latency_us, spread, repeats, share_milli, "
    "memory_load_bytes, memory_run_bytes, load_time_ns, name, op, op_class, precision, inputs, "
    "output, window, fused_add, activation, flops, bytes_activations, bytes_weights, "
    "bytes_written, m, n, k, gemm_batch, reuse_activations, reuse_weights, reuse_output";
constexpr int kColumnCount = 33;

// One prepared statement; finalised by itself.
class Statement {
 public:
  Statement(sqlite3* db, const std::string& sql) {
    code_ = sqlite3_prepare_v2(db, sql.c_str(), -1, &statement_, nullptr);
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  bool ok() const { return code_ == SQLITE_OK; }
  void Bind(std::string_view text) {
    sqlite3_bind_text(statement_, ++bound_, text.data(), static_cast<int>(text.size()),
                      SQLITE_TRANSIENT);
  }
  void Bind(int64_t value) { sqlite3_bind_int64(statement_, ++bound_, value); }
  void Bind(int value) { Bind(static_cast<int64_t>(value)); }
  void Bind(double value) { sqlite3_bind_double(statement_, ++bound_, value); }
  int Step() { return sqlite3_step(statement_); }
  void Reset() {
    sqlite3_reset(statement_);
    bound_ = 0;
  }

  // Columns in order.
  std::string Text() {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, read_));
    const auto size = static_cast<size_t>(sqlite3_column_bytes(statement_, read_++));
    return text ? std::string(text, size) : std::string();
  }
  int64_t Integer() { return sqlite3_column_int64(statement_, read_++); }
  int Int() { return sqlite3_column_int(statement_, read_++); }
  double Real() { return sqlite3_column_double(statement_, read_++); }
  void NextRow() { read_ = 0; }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int code_ = SQLITE_OK;
  int bound_ = 0, read_ = 0;
};

void BindSample(Statement& s, const Sample& sample) {
  const Kernel& k = sample.kernel;
  s.Bind(sample.model);
  s.Bind(sample.whole_model ? 1 : 0);
  s.Bind(sample.batch);
  s.Bind(sample.device);
  s.Bind(model::ToString(sample.runtime));
  s.Bind(sample.source);
  s.Bind(sample.latency_us);
  s.Bind(sample.spread);
  s.Bind(sample.repeats);
  s.Bind(sample.share.value());
  s.Bind(sample.memory_load.value());
  s.Bind(sample.memory_run.value());
  s.Bind(sample.load_time.value());
  s.Bind(k.name);
  s.Bind(k.op);
  s.Bind(model::ToString(k.op_class));
  s.Bind(model::ToString(k.precision));
  s.Bind(InputsText(k.inputs));
  s.Bind(ShapeText(k.output));
  s.Bind(WindowText(k.window));
  s.Bind(k.fused_add ? 1 : 0);
  s.Bind(k.activation);
  for (const int64_t value :
       {k.flops, k.bytes_activations, k.bytes_weights, k.bytes_written, k.m, k.n, k.k, k.gemm_batch,
        k.reuse.activations, k.reuse.weights, k.reuse.output}) {
    s.Bind(value);
  }
}

Result<Sample> ReadSample(Statement& s) {
  s.NextRow();
  Sample sample;
  Kernel& k = sample.kernel;
  sample.model = s.Text();
  sample.whole_model = s.Integer() != 0;
  sample.batch = s.Integer();
  sample.device = s.Text();
  HASE_ASSIGN_OR_RETURN(sample.runtime, model::ParseRuntime(s.Text()));
  sample.source = s.Text();
  sample.latency_us = s.Real();
  sample.spread = s.Real();
  sample.repeats = s.Integer();
  sample.share = MilliShare(s.Integer());
  sample.memory_load = Bytes(s.Integer());
  sample.memory_run = Bytes(s.Integer());
  sample.load_time = Nanos(s.Integer());
  k.name = s.Text();
  k.op = s.Text();
  HASE_ASSIGN_OR_RETURN(k.op_class, model::ParseOpClass(s.Text()));
  HASE_ASSIGN_OR_RETURN(k.precision, model::ParsePrecision(s.Text()));
  k.inputs = ParseInputs(s.Text());
  k.output = ParseShape(s.Text());
  k.window = ParseWindow(s.Text());
  k.fused_add = s.Integer() != 0;
  k.activation = s.Text();
  for (int64_t* value :
       {&k.flops, &k.bytes_activations, &k.bytes_weights, &k.bytes_written, &k.m, &k.n, &k.k,
        &k.gemm_batch, &k.reuse.activations, &k.reuse.weights, &k.reuse.output}) {
    *value = s.Integer();
  }
  return sample;
}

constexpr double cluster::MicroBenchmarks::* kBenchFields[] = {
    &cluster::MicroBenchmarks::gemm_small,
    &cluster::MicroBenchmarks::gemm_medium,
    &cluster::MicroBenchmarks::gemm_large,
    &cluster::MicroBenchmarks::conv3x3,
    &cluster::MicroBenchmarks::conv1x1,
    &cluster::MicroBenchmarks::depthwise,
    &cluster::MicroBenchmarks::copy_small,
    &cluster::MicroBenchmarks::copy_medium,
    &cluster::MicroBenchmarks::copy_large,
    &cluster::MicroBenchmarks::launch_us,
    &cluster::MicroBenchmarks::host_to_device_gb_s};

std::string WhereClause(const SampleQuery& query) {
  std::string text = " WHERE machine = ?";
  if (!query.device.empty()) text += " AND device = ?";
  if (!query.model.empty()) text += " AND model = ?";
  if (!query.source.empty()) text += " AND source = ?";
  if (query.whole_model) text += " AND whole_model = ?";
  if (query.batch) text += " AND batch = ?";
  return text;
}

void BindWhere(Statement& s, const std::string& machine, const SampleQuery& query) {
  s.Bind(machine);
  for (const auto* text : {&query.device, &query.model, &query.source}) {
    if (!text->empty()) s.Bind(*text);
  }
  if (query.whole_model) s.Bind(*query.whole_model ? 1 : 0);
  if (query.batch) s.Bind(*query.batch);
}

// Of an absolute path; what a URI gives a meaning is escaped.
std::string UriOf(const std::filesystem::path& file, std::string_view mode) {
  std::string uri = "file://";
  for (const char c : file.string()) {
    if (c == '%' || c == '?' || c == '#') {
      uri += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    } else {
      uri += c;
    }
  }
  return uri + "?mode=" + std::string(mode);
}

}  // namespace

struct SampleStore::Database {
  sqlite3* db = nullptr;
  std::string file, machine;

  ~Database() { sqlite3_close(db); }

  std::unexpected<Error> Fail(std::string_view doing) const {
    const int code = sqlite3_errcode(db);
    const char* advice = code == SQLITE_FULL      ? ": the disk is full"
                         : code == SQLITE_CORRUPT ? ": the file is damaged; move it away"
                         : code == SQLITE_NOTADB  ? ": this is no sample store; move it away"
                         : code == SQLITE_BUSY    ? ": another process holds it"
                         // Its tables are not those of its version.
                         : code == SQLITE_ERROR ? ": this is no whole sample store; move it away"
                                                : "";
    return Unavailable(fmt::format("{}: cannot {}: {}{}", file, doing, sqlite3_errmsg(db), advice));
  }
  Status Run(const char* sql, std::string_view doing) const {
    if (sqlite3_exec(db, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return Fail(doing);
    return {};
  }
  // From 0 (a new file) to kVersion.
  Result<int64_t> Version() const {
    Statement s(db, "PRAGMA user_version");
    if (!s.ok() || s.Step() != SQLITE_ROW) return Fail("read its version");
    const int64_t version = s.Integer();
    if (version > kVersion) {
      return Invalid(fmt::format("{}: written by a newer HASE (version {}, this one knows {})",
                                 file, version, kVersion));
    }
    if (version < 0) {
      return Invalid(fmt::format("{}: its version is {}: this is no sample store; move it away",
                                 file, version));
    }
    return version;
  }
  Status Migrate() const {
    HASE_RETURN_IF_ERROR(Run("BEGIN IMMEDIATE", "open"));
    const auto migrated = [&]() -> Status {
      HASE_ASSIGN_OR_RETURN(const int64_t version, Version());
      constexpr const char* kSteps[kVersion] = {kSchema, kSecondSchema};
      for (int64_t v = version; v < kVersion; ++v) {
        if (!Run(kSteps[v], "create tables")) return Fail("create tables");
      }
      return Run("COMMIT", "create tables");
    }();
    if (!migrated) (void)Run("ROLLBACK", "undo");
    return migrated;
  }
};

SampleStore::SampleStore(std::unique_ptr<Database> database) : database_(std::move(database)) {}
SampleStore::SampleStore(SampleStore&&) noexcept = default;
SampleStore& SampleStore::operator=(SampleStore&&) noexcept = default;
SampleStore::~SampleStore() = default;

Result<SampleStore> SampleStore::Open(const std::filesystem::path& file, std::string machine) {
  auto database = std::make_unique<Database>();
  database->file = file.string();
  database->machine = std::move(machine);
  if (sqlite3_open(file.c_str(), &database->db) != SQLITE_OK) return database->Fail("open");
  sqlite3_extended_result_codes(database->db, 0);
  sqlite3_busy_timeout(database->db, 5000);
  HASE_RETURN_IF_ERROR(
      database->Run("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", "open"));
  HASE_RETURN_IF_ERROR(database->Migrate());
  return SampleStore(std::move(database));
}

Result<std::optional<SampleStore>> SampleStore::OpenToRead(const std::filesystem::path& file,
                                                           std::string machine) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return std::nullopt;
  // A write-ahead log cannot be shared where nothing can be written; then nobody writes here.
  const bool writable = access(file.parent_path().c_str(), W_OK) == 0;
  auto database = std::make_unique<Database>();
  database->file = file.string();
  database->machine = machine;
  const std::string uri =
      UriOf(std::filesystem::absolute(file), writable ? "ro" : "ro&immutable=1");
  if (sqlite3_open_v2(uri.c_str(), &database->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI,
                      nullptr) != SQLITE_OK) {
    return database->Fail("open");
  }
  sqlite3_extended_result_codes(database->db, 0);
  sqlite3_busy_timeout(database->db, 5000);
  HASE_ASSIGN_OR_RETURN(const int64_t version, database->Version());
  if (version == kVersion) return SampleStore(std::move(database));
  database.reset();
  return Open(file, std::move(machine));
}

Status SampleStore::Append(std::span<const Sample> samples, int clock_mhz) {
  if (samples.empty()) return {};
  HASE_RETURN_IF_ERROR(database_->Run("BEGIN IMMEDIATE", "append samples"));
  const auto rows = [&]() -> Status {
    std::string marks = "?, ?";
    for (int i = 0; i < kColumnCount; ++i) marks += ", ?";
    Statement s(
        database_->db,
        fmt::format("INSERT INTO samples (machine, clock_mhz, {}) VALUES ({})", kColumns, marks));
    if (!s.ok()) return database_->Fail("append samples");
    for (const Sample& sample : samples) {
      s.Bind(database_->machine);
      s.Bind(clock_mhz);
      BindSample(s, sample);
      if (s.Step() != SQLITE_DONE) return database_->Fail("append samples");
      s.Reset();
    }
    return {};
  }();
  if (!rows) {
    (void)database_->Run("ROLLBACK", "undo");
    return rows;
  }
  return database_->Run("COMMIT", "append samples");
}

Result<std::vector<Sample>> SampleStore::Query(const SampleQuery& query) const {
  Statement s(database_->db,
              fmt::format("SELECT {} FROM samples{} ORDER BY id", kColumns, WhereClause(query)));
  if (!s.ok()) return database_->Fail("read samples");
  BindWhere(s, database_->machine, query);
  std::vector<Sample> samples;
  int code = 0;
  while ((code = s.Step()) == SQLITE_ROW) {
    auto sample = ReadSample(s);
    if (!sample) {
      return Invalid(
          fmt::format("{}: a sample cannot be read: {}", database_->file, sample.error().message));
    }
    samples.push_back(std::move(*sample));
  }
  if (code != SQLITE_DONE) return database_->Fail("read samples");
  return samples;
}

Result<int64_t> SampleStore::Count(const SampleQuery& query) const {
  Statement s(database_->db, "SELECT COUNT(*) FROM samples" + WhereClause(query));
  if (!s.ok()) return database_->Fail("count samples");
  BindWhere(s, database_->machine, query);
  if (s.Step() != SQLITE_ROW) return database_->Fail("count samples");
  return s.Integer();
}

Result<int64_t> SampleStore::CountUnusable() const {
  Statement s(database_->db,
              "SELECT COUNT(*) FROM samples WHERE machine = ? AND (typeof(latency_us) NOT IN "
              "('real', 'integer') OR NOT latency_us > 0)");
  if (!s.ok()) return database_->Fail("count samples");
  s.Bind(database_->machine);
  if (s.Step() != SQLITE_ROW) return database_->Fail("count samples");
  return s.Integer();
}

Status SampleStore::Check() const {
  Statement s(database_->db, "PRAGMA quick_check(1)");
  if (!s.ok() || s.Step() != SQLITE_ROW) return database_->Fail("check");
  const std::string found = s.Text();
  if (found == "ok") return {};
  return Invalid(fmt::format("{}: the file is damaged ({}); move it away", database_->file, found));
}

Status SampleStore::Remove(const SampleQuery& query) {
  Statement s(database_->db, "DELETE FROM samples" + WhereClause(query));
  if (!s.ok()) return database_->Fail("remove samples");
  BindWhere(s, database_->machine, query);
  if (s.Step() != SQLITE_DONE) return database_->Fail("remove samples");
  return {};
}

Status SampleStore::PutBench(const std::string& device, const cluster::MicroBenchmarks& bench) {
  Statement s(database_->db,
              "INSERT INTO benches (machine, device, date, sm_clock_mhz, memory_clock_mhz, "
              "gemm_small, gemm_medium, gemm_large, conv3x3, conv1x1, depthwise, copy_small, "
              "copy_medium, copy_large, launch_us, host_to_device_gb_s) VALUES "
              "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  if (!s.ok()) return database_->Fail("store a benchmark");
  s.Bind(database_->machine);
  s.Bind(device);
  s.Bind(bench.date);
  s.Bind(bench.sm_clock_mhz);
  s.Bind(bench.memory_clock_mhz);
  for (const auto field : kBenchFields) s.Bind(bench.*field);
  if (s.Step() != SQLITE_DONE) return database_->Fail("store a benchmark");
  return {};
}

Result<std::optional<cluster::MicroBenchmarks>> SampleStore::Bench(
    const std::string& device) const {
  Statement s(database_->db,
              "SELECT date, sm_clock_mhz, memory_clock_mhz, gemm_small, gemm_medium, gemm_large, "
              "conv3x3, conv1x1, depthwise, copy_small, copy_medium, copy_large, launch_us, "
              "host_to_device_gb_s FROM benches WHERE machine = ? AND device = ? ORDER BY id DESC "
              "LIMIT 1");
  if (!s.ok()) return database_->Fail("read a benchmark");
  s.Bind(database_->machine);
  s.Bind(device);
  const int code = s.Step();
  if (code == SQLITE_DONE) return std::nullopt;
  if (code != SQLITE_ROW) return database_->Fail("read a benchmark");
  cluster::MicroBenchmarks bench;
  bench.measured = true;
  bench.date = s.Text();
  bench.sm_clock_mhz = s.Int();
  bench.memory_clock_mhz = s.Int();
  for (const auto field : kBenchFields) bench.*field = s.Real();
  return bench;
}

}  // namespace hase::latency
