// hase.db: tables facts, runs and journal. Statements are prepared once; SQLite's types end here.
#include "measurement/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <set>

namespace hase::measurement {
namespace {

constexpr const char* kSchema = R"(
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS facts(name TEXT PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS runs(id INTEGER PRIMARY KEY, policy TEXT NOT NULL,
  done INTEGER NOT NULL DEFAULT 0, result TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS journal(n INTEGER PRIMARY KEY, run INTEGER NOT NULL, t_ns INTEGER NOT NULL,
  seq INTEGER NOT NULL, kind TEXT NOT NULL, job TEXT NOT NULL, device TEXT NOT NULL,
  share_milli INTEGER NOT NULL, why TEXT NOT NULL, predicted_ns INTEGER NOT NULL,
  inputs INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS journal_of_run ON journal(run, n);
)";

// Kinds as LogEntry wants them: views of texts that live for ever. Empty: none of ours.
std::string_view KindOf(std::string_view text) {
  constexpr std::array<std::string_view, 10> kKinds = {"arrived",   "started",  "chunk", "finished",
                                                       "failed",    "reserved", "moved", "rejected",
                                                       "cancelled", "device"};
  for (const std::string_view kind : kKinds)
    if (kind == text) return kind;
  return {};
}

}  // namespace

struct Store::State {
  sqlite3* db = nullptr;
  int lock = -1;
  std::string name;

  ~State() {
    if (db) sqlite3_close(db);
    if (lock >= 0) close(lock);
  }
  std::unexpected<Error> Failed() const {
    return Unavailable(fmt::format("{}: {}", name, sqlite3_errmsg(db)));
  }
  Status Run(const char* sql) const {
    if (sqlite3_exec(db, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return Failed();
    return {};
  }
  // Prepares `sql`, binds by `bind`, steps, and calls `row` for each row.
  template <typename Bind, typename Row>
  Status Execute(const char* sql, Bind&& bind, Row&& row) const {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, nullptr) != SQLITE_OK) return Failed();
    bind(statement);
    int status = sqlite3_step(statement);
    for (; status == SQLITE_ROW; status = sqlite3_step(statement)) row(statement);
    sqlite3_finalize(statement);
    if (status != SQLITE_DONE) return Failed();
    return {};
  }
};

namespace {

void Bind(sqlite3_stmt* statement, int index, std::string_view text) {
  sqlite3_bind_text(statement, index, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
}
void Bind(sqlite3_stmt* statement, int index, int64_t value) {
  sqlite3_bind_int64(statement, index, value);
}
template <typename... T>
auto Values(const T&... values) {
  return [values...]([[maybe_unused]] sqlite3_stmt* statement) {
    [[maybe_unused]] int index = 0;
    (Bind(statement, ++index, values), ...);
  };
}
std::string TextAt(sqlite3_stmt* statement, int column) {
  const auto* text = sqlite3_column_text(statement, column);
  return text ? reinterpret_cast<const char*>(text) : "";
}
const auto kNoRows = [](sqlite3_stmt*) {};

}  // namespace

Store::Store(std::unique_ptr<State> state) : state_(std::move(state)) {}
Store::~Store() = default;

Result<std::unique_ptr<Store>> Store::Open(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  auto state = std::make_unique<State>();
  state->name = (folder / "hase.db").string();
  const std::string lock = (folder / "hase.lock").string();
  state->lock = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (state->lock < 0)
    return Unavailable(fmt::format("{}: {}; give a folder that can be written with --state", lock,
                                   std::strerror(errno)));
  if (flock(state->lock, LOCK_EX | LOCK_NB) != 0)
    return Unavailable(
        fmt::format("{}: another hase works in this folder; wait for it or give another --state",
                    folder.string()));
  if (sqlite3_open(state->name.c_str(), &state->db) != SQLITE_OK) return state->Failed();
  sqlite3_busy_timeout(state->db, 5000);
  HASE_RETURN_IF_ERROR(state->Run(kSchema));
  return std::unique_ptr<Store>(new Store(std::move(state)));
}

Status Store::Remember(const std::string& name, const std::string& text) {
  return state_->Execute(
      "INSERT INTO facts VALUES(?, ?) ON CONFLICT(name) DO UPDATE SET text = excluded.text",
      Values(std::string_view(name), std::string_view(text)), kNoRows);
}

Result<std::optional<std::string>> Store::Recall(const std::string& name) {
  std::optional<std::string> text;
  HASE_RETURN_IF_ERROR(state_->Execute("SELECT text FROM facts WHERE name = ?",
                                       Values(std::string_view(name)),
                                       [&](sqlite3_stmt* s) { text = TextAt(s, 0); }));
  return text;
}

Result<int64_t> Store::BeginRun(const std::string& policy) {
  HASE_RETURN_IF_ERROR(state_->Execute("INSERT INTO runs(policy) VALUES(?)",
                                       Values(std::string_view(policy)), kNoRows));
  return sqlite3_last_insert_rowid(state_->db);
}

Status Store::EndRun(int64_t run, const std::string& result) {
  return state_->Execute("UPDATE runs SET done = 1, result = ? WHERE id = ?",
                         Values(std::string_view(result), run), kNoRows);
}

Result<std::vector<StoredRun>> Store::Runs() {
  std::vector<StoredRun> runs;
  HASE_RETURN_IF_ERROR(state_->Execute("SELECT id, policy, done, result FROM runs ORDER BY id",
                                       Values(), [&](sqlite3_stmt* s) {
                                         runs.push_back({.id = sqlite3_column_int64(s, 0),
                                                         .policy = TextAt(s, 1),
                                                         .done = sqlite3_column_int64(s, 2) != 0,
                                                         .result = TextAt(s, 3)});
                                       }));
  return runs;
}

Status Store::ForgetRuns() { return StartQueue({}, {}); }

Status Store::StartQueue(const std::vector<std::pair<std::string, std::string>>& facts,
                         const std::vector<std::string>& policies) {
  HASE_RETURN_IF_ERROR(state_->Run("BEGIN IMMEDIATE"));
  const auto changed = [&]() -> Status {
    HASE_RETURN_IF_ERROR(state_->Run("DELETE FROM journal; DELETE FROM runs"));
    for (const auto& [name, text] : facts) HASE_RETURN_IF_ERROR(Remember(name, text));
    for (const auto& policy : policies) HASE_RETURN_IF_ERROR(BeginRun(policy));
    return state_->Run("COMMIT");
  }();
  if (!changed) (void)state_->Run("ROLLBACK");
  return changed;
}

namespace {

class SqliteJournal : public execution::Journal {
 public:
  SqliteJournal(sqlite3* db, int64_t run) : db_(db), run_(run) {
    sqlite3_prepare_v2(db_,
                       "INSERT INTO journal(run, t_ns, seq, kind, job, device, share_milli, why, "
                       "predicted_ns, inputs) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                       -1, &insert_, nullptr);
  }
  ~SqliteJournal() override { sqlite3_finalize(insert_); }

  Status Append(const execution::LogEntry& e) override {
    if (!insert_) return Failed();
    Values(run_, e.time.value(), static_cast<int64_t>(e.seq), e.kind, std::string_view(e.job),
           std::string_view(e.device), e.share.value(), std::string_view(e.why),
           e.predicted.value(), e.inputs)(insert_);
    const int status = sqlite3_step(insert_);
    sqlite3_reset(insert_);
    if (status != SQLITE_DONE) return Failed();
    return {};
  }

 private:
  Status Failed() const {
    return Unavailable(fmt::format("the journal cannot be written: {}", sqlite3_errmsg(db_)));
  }
  sqlite3* db_;
  int64_t run_;
  sqlite3_stmt* insert_ = nullptr;
};

}  // namespace

std::unique_ptr<execution::Journal> Store::JournalOf(int64_t run) {
  return std::make_unique<SqliteJournal>(state_->db, run);
}

namespace {

// What no journal of ours can say; empty if there is nothing of that kind.
std::string Nonsense(const execution::LogEntry& e, std::set<std::string>& finished) {
  if (e.kind.empty()) return "an unknown kind";
  if (e.time < Nanos(0)) return "a time before the run began";
  if (e.inputs < 0) return "fewer inputs than none";
  if (e.kind == "finished" && e.why != "part" && !finished.insert(e.job).second)
    return fmt::format("job '{}' finished twice", e.job);
  return "";
}

}  // namespace

Result<std::vector<execution::LogEntry>> Store::Entries(int64_t run) {
  std::vector<execution::LogEntry> entries;
  std::set<std::string> finished;
  std::string nonsense;
  HASE_RETURN_IF_ERROR(state_->Execute(
      "SELECT t_ns, seq, kind, job, device, share_milli, why, predicted_ns, inputs, n FROM journal "
      "WHERE run = ? ORDER BY n",
      Values(run), [&](sqlite3_stmt* s) {
        entries.push_back({.time = Nanos(sqlite3_column_int64(s, 0)),
                           .seq = static_cast<uint64_t>(sqlite3_column_int64(s, 1)),
                           .kind = KindOf(TextAt(s, 2)),
                           .job = TextAt(s, 3),
                           .device = TextAt(s, 4),
                           .share = MilliShare(sqlite3_column_int64(s, 5)),
                           .why = TextAt(s, 6),
                           .predicted = Nanos(sqlite3_column_int64(s, 7)),
                           .inputs = sqlite3_column_int64(s, 8)});
        const std::string found = Nonsense(entries.back(), finished);
        if (!found.empty() && nonsense.empty())
          nonsense = fmt::format(
              "{}: journal row {} of run {} says {}: the file was changed; start "
              "the queue anew",
              state_->name, sqlite3_column_int64(s, 9), run, found);
      }));
  if (!nonsense.empty()) return Invalid(nonsense);
  return entries;
}

}  // namespace hase::measurement
