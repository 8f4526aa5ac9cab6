#include "runtime/tenants/usage/ledger.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/json_text.h"
#include "runtime/base/sandbox_id.h"

namespace atl::tenants {
namespace {

// Columns of a part, in the order of StateOf and of the statements that write them.
constexpr char kPartColumns[] =
    "part, sandbox, owner, image, labels, record, started_ms, held_cpu, held_memory, held_ms, "
    "sampled_ms, cpu_us, memory_bytes, bytes_in, bytes_out, read_bytes, written_bytes, disk_bytes, "
    "disk_ms, ended_ms, estimated, held_snapshots, held_parked, offset_ms";
constexpr int kPartValues = 24;

Status MakeTables(sqlite::Db& db) {
  std::string usage = "CREATE TABLE usage (hour INTEGER NOT NULL, number INTEGER NOT NULL";
  // A shipped step never changes, so it does not use kAmounts.
  for (const char* column :
       {"cpu_us", "cpu_reserved_us", "memory_kib_ms", "memory_reserved_kib_ms", "bytes_in",
        "bytes_out", "read_bytes", "written_bytes", "disk_kib_ms", "commands", "creates"}) {
    usage.append(", ").append(column).append(" INTEGER NOT NULL");
  }
  usage +=
      ", PRIMARY KEY (hour, number)) WITHOUT ROWID; CREATE INDEX usage_by_number ON usage "
      "(number);";
  return db.Exec(
      "CREATE TABLE parts (number INTEGER PRIMARY KEY AUTOINCREMENT, part TEXT NOT NULL UNIQUE,"
      " sandbox TEXT NOT NULL, owner TEXT NOT NULL, image TEXT NOT NULL, labels TEXT NOT NULL,"
      " record TEXT NOT NULL, started_ms INTEGER NOT NULL, held_cpu INTEGER NOT NULL,"
      " held_memory INTEGER NOT NULL, held_ms INTEGER NOT NULL, sampled_ms INTEGER NOT NULL,"
      " cpu_us INTEGER NOT NULL, memory_bytes INTEGER, bytes_in INTEGER NOT NULL,"
      " bytes_out INTEGER NOT NULL, read_bytes INTEGER NOT NULL, written_bytes INTEGER NOT NULL,"
      " disk_bytes INTEGER, disk_ms INTEGER NOT NULL, ended_ms INTEGER NOT NULL,"
      " estimated INTEGER NOT NULL);"
      "CREATE INDEX parts_by_sandbox ON parts (sandbox);"
      "CREATE TABLE host (hour INTEGER PRIMARY KEY, cpu_us INTEGER NOT NULL);"
      "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;" +
      usage);
}

Status AddWhatIsKept(sqlite::Db& db) {
  return db.Exec(
      "ALTER TABLE usage ADD COLUMN snapshot_kib_ms INTEGER NOT NULL DEFAULT 0;"
      "ALTER TABLE usage ADD COLUMN parked_us INTEGER NOT NULL DEFAULT 0;"
      "ALTER TABLE parts ADD COLUMN held_snapshots INTEGER NOT NULL DEFAULT 0;"
      "ALTER TABLE parts ADD COLUMN held_parked INTEGER NOT NULL DEFAULT 0;"
      "ALTER TABLE host ADD COLUMN parked_us INTEGER NOT NULL DEFAULT 0");
}

// Times of a part are Unix times. This is the offset to the boot clock with which they were made;
// 0: an older release made them.
Status AddOffset(sqlite::Db& db) {
  return db.Exec("ALTER TABLE parts ADD COLUMN offset_ms INTEGER NOT NULL DEFAULT 0");
}
constexpr sqlite::SchemaStep kUsageSteps[] = {MakeTables, AddWhatIsKept, AddOffset};

std::string LabelsText(const std::map<std::string, std::string>& labels) {
  return JsonText(nlohmann::json(labels));
}

std::map<std::string, std::string> LabelsOf(const std::string& text) {
  std::map<std::string, std::string> labels;
  const auto json = ParseJson(text);
  if (!json || !json->is_object()) return labels;
  for (const auto& [key, value] : json->items()) {
    if (value.is_string()) labels[key] = value.get<std::string>();
  }
  return labels;
}

int64_t NumberOf(const std::string& text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

int64_t Signed(uint64_t value) {
  return static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX));
}

// A counter that has gone back was read of something else.
int64_t Grown(uint64_t now, uint64_t before) {
  return now > before ? Signed(now - before) : 0;
}

std::string KeyOf(UsageQuery::By by) {
  switch (by) {
    case UsageQuery::By::kTenant:
      return "p.owner";
    case UsageQuery::By::kLabel:
      return "COALESCE((SELECT value FROM json_each(p.labels) WHERE key=?5), '')";
    case UsageQuery::By::kImage:
      return "p.image";
    case UsageQuery::By::kSandbox:
      return "p.sandbox";
  }
  return "''";
}

}  // namespace

Ledger::Ledger(sqlite::Db db, std::string boot, const Settings& settings)
    : db_(std::move(db)),
      boot_(std::move(boot)),
      series_(NewSandboxId().substr(0, 8)),
      settings_(settings) {}

Result<std::unique_ptr<Ledger>> Ledger::Open(const std::string& path, const std::string& boot,
                                             const Settings& settings, const Instant& now) {
  ATOLL_ASSIGN(sqlite::Db db, sqlite::Db::Open(path, {.log_bytes = 8 << 20, .durable = true}));
  if (auto migrated = sqlite::Migrate(db, kUsageSteps); !migrated) {
    return Fail(std::move(migrated).error().Wrap(path));
  }
  std::unique_ptr<Ledger> ledger(new Ledger(std::move(db), boot, settings));
  ATOLL_TRY(ledger->Prepare());
  ATOLL_TRY(ledger->Load(now));
  return ledger;
}

Status Ledger::Prepare() {
  const std::string columns = kPartColumns;
  ATOLL_ASSIGN(find_, db_.Prepare("SELECT number, " + columns + " FROM parts WHERE part=?1"));
  std::string values, sets;
  size_t from = 0;
  for (int i = 1; i <= kPartValues; ++i) {
    const size_t to = std::min(columns.find(", ", from), columns.size());
    const std::string value = "?" + std::to_string(i);
    values.append(i == 1 ? "" : ",").append(value);
    sets.append(i == 1 ? "" : ",").append(columns.substr(from, to - from)).append("=" + value);
    from = to + 2;
  }
  ATOLL_ASSIGN(insert_, db_.Prepare("INSERT INTO parts (" + columns + ") VALUES (" + values + ")"));
  ATOLL_ASSIGN(update_, db_.Prepare("UPDATE parts SET " + sets + " WHERE number=?" +
                                    std::to_string(kPartValues + 1)));
  std::string names, amounts, sums;
  int number = 3;
  for (const AmountField& field : kAmounts) {
    const std::string name = field.column;
    names += ", " + name;
    amounts += ",?" + std::to_string(number++);
    sums += (sums.empty() ? "" : ", ") + name + "=" + name + "+excluded." + name;
  }
  ATOLL_ASSIGN(add_, db_.Prepare("INSERT INTO usage (hour, number" + names + ") VALUES (?1,?2" +
                                 amounts + ") ON CONFLICT (hour, number) DO UPDATE SET " + sums));
  ATOLL_ASSIGN(add_host_, db_.Prepare("INSERT INTO host (hour, cpu_us, parked_us) VALUES "
                                      "(?1,?2,?3) ON CONFLICT (hour) DO UPDATE SET cpu_us=cpu_us+"
                                      "excluded.cpu_us, parked_us=parked_us+excluded.parked_us"));
  ATOLL_ASSIGN(set_, db_.Prepare("INSERT INTO facts VALUES (?1,?2) ON CONFLICT (name) DO UPDATE "
                                 "SET value=excluded.value"));
  return {};
}

Status Ledger::Load(const Instant& now) {
  opened_offset_ms_ = now.offset_ms();
  ATOLL_ASSIGN(sqlite::Stmt living, db_.Prepare(std::string("SELECT number, ") + kPartColumns +
                                                " FROM parts WHERE ended_ms=0"));
  for (;;) {
    ATOLL_ASSIGN(const bool row, living.Step());
    if (!row) break;
    State state = StateOf(living);
    parts_.emplace(state.part.id, std::move(state));
  }
  std::string boot;
  ATOLL_ASSIGN(sqlite::Stmt facts, db_.Prepare("SELECT name, value FROM facts"));
  for (;;) {
    ATOLL_ASSIGN(const bool row, facts.Step());
    if (!row) break;
    const std::string name = facts.ColumnText(0);
    if (name == "boot") boot = facts.ColumnText(1);
    if (name == "host_cpu_us") host_cpu_us_ = static_cast<uint64_t>(NumberOf(facts.ColumnText(1)));
    if (name == "complete_from") complete_from_ = NumberOf(facts.ColumnText(1));
    if (name.starts_with(kFolded)) {
      folded_[name.substr(kFolded.size())] = NumberOf(facts.ColumnText(1));
    }
  }
  if (boot == boot_) return {};
  // The groups of an earlier boot are gone, and their counters with them.
  if (!boot.empty()) host_cpu_us_ = 0;
  EndOthers({});
  // Snapshots are still there, parked sandboxes are not. Only the wall clock knows how long the
  // host was down.
  for (auto& [id, state] : parts_) {
    if (!IsOwners(state)) continue;
    KeepUnixTimes(&state, now.offset_ms());
    state.held.parked = 0;
    state.changed = true;
  }
  host_changed_ = true;
  return {};
}

void Ledger::KeepUnixTimes(State* state, int64_t offset_ms) {
  const int64_t by_ms = state->offset_ms - offset_ms;
  for (int64_t* time : {&state->held_ms, &state->sampled_ms, &state->disk_ms}) *time += by_ms;
  state->offset_ms = offset_ms;
}

Ledger::State Ledger::StateOf(const sqlite::Stmt& row) const {
  State state;
  int column = 0;
  const auto number = [&] { return row.ColumnInt(column++); };
  const auto counter = [&] { return static_cast<uint64_t>(row.ColumnInt(column++)); };
  const auto text = [&] { return row.ColumnText(column++); };
  const auto known = [&]() -> std::optional<uint64_t> {
    const bool null = row.ColumnIsNull(column);
    const uint64_t value = counter();
    return null ? std::optional<uint64_t>() : value;
  };
  state.number = number();
  state.part.id = text();
  state.part.sandbox = text();
  state.part.owner = text();
  state.part.image = text();
  state.part.labels = LabelsOf(text());
  state.record = text();
  state.started_ms = number();
  state.held.cpu_millis = counter();
  state.held.memory_bytes = counter();
  state.held_ms = number();
  state.sampled_ms = number();
  state.last.cpu_us = counter();
  state.last.memory_bytes = known();
  state.last.bytes_in = counter();
  state.last.bytes_out = counter();
  state.last.read_bytes = counter();
  state.last.written_bytes = counter();
  state.last.disk_bytes = known();
  state.disk_ms = number();
  state.ended_ms = number();
  state.estimated = number() != 0;
  state.held.snapshot_bytes = counter();
  state.held.parked = counter();
  const int64_t offset_ms = number();
  KeepUnixTimes(&state, offset_ms != 0 ? offset_ms : opened_offset_ms_);
  state.changed = false;
  return state;
}

Result<std::optional<Ledger::State>> Ledger::Read(const std::string& part) {
  find_->Reset();
  find_->Bind(1, part);
  ATOLL_ASSIGN(const bool row, find_->Step());
  std::optional<State> state;
  if (row) state = StateOf(*find_);
  find_->Reset();
  return state;
}

Ledger::State* Ledger::Find(const std::string& part) {
  if (const auto found = parts_.find(part); found != parts_.end()) return &found->second;
  auto read = Read(part);
  if (!read || !*read) return nullptr;
  return &parts_.emplace(part, std::move(**read)).first->second;
}

void Ledger::Begin(UsagePart part, const Held& held, const Instant& now) {
  if (State* const known = Find(part.id)) {
    known->changed = true;
    known->part.labels = std::move(part.labels);
    // It was believed to have ended with an earlier daemon.
    if (known->ended_ms != 0 && known->estimated) known->ended_ms = 0, known->estimated = false;
    return Hold(known->part.id, held, now);
  }
  State state;
  state.record = series_;
  state.held = held;
  state.started_ms = now.unix_ms;
  state.held_ms = state.sampled_ms = state.disk_ms = now.boot_ms;
  state.offset_ms = now.offset_ms();
  state.last = part.base;
  state.last.memory_bytes.reset();
  state.last.disk_bytes.reset();
  state.pending[now.unix_ms / kHourMs].creates = part.first ? 1 : 0;
  state.part = std::move(part);
  const std::string id = state.part.id;
  parts_.emplace(id, std::move(state));
}

void Ledger::Describe(const std::string& part, std::map<std::string, std::string> labels) {
  State* const state = Find(part);
  if (state == nullptr) return;
  state->part.labels = std::move(labels);
  state->changed = true;
}

void Ledger::Spread(Pending* pending, int64_t from_ms, const Instant& to, int64_t Amounts::*value,
                    int64_t total) {
  if (total == 0) return;
  int64_t left = total;
  from_ms += to.offset_ms();
  const int64_t to_ms = to.unix_ms;
  for (int64_t at = from_ms; at / kHourMs < to_ms / kHourMs;) {
    const int64_t next = (at / kHourMs + 1) * kHourMs;
    const auto share =
        static_cast<int64_t>(static_cast<long double>(total) * static_cast<long double>(next - at) /
                             static_cast<long double>(to_ms - from_ms));
    (*pending)[at / kHourMs].*value += share;
    left -= share;
    at = next;
  }
  (*pending)[to_ms / kHourMs].*value += left;
}

void Ledger::Accrue(State& state, const Instant& now) {
  const int64_t span_ms = now.boot_ms - state.held_ms;
  if (span_ms <= 0) return;
  const auto take = [&](int64_t Amounts::*value, uint64_t held) {
    Spread(&state.pending, state.held_ms, now, value, Signed(held) * span_ms);
  };
  take(&Amounts::cpu_reserved_us, state.held.cpu_millis);
  take(&Amounts::memory_reserved_kib_ms, state.held.memory_bytes / 1024);
  take(&Amounts::snapshot_kib_ms, state.held.snapshot_bytes / 1024);
  take(&Amounts::parked_us, state.held.parked * 1000);
  state.held_ms = now.boot_ms;
  state.offset_ms = now.offset_ms();
  state.changed = true;
}

void Ledger::Hold(const std::string& part, const Held& held, const Instant& now) {
  State* const state = Find(part);
  if (state != nullptr && state->ended_ms == 0) SetHeld(*state, held, now);
}

void Ledger::SetHeld(State& state, const Held& held, const Instant& now) {
  if (state.held == held) return;
  Accrue(state, now);
  state.held = held;
  state.changed = true;
}

bool Ledger::IsOwners(const State& state) {
  return state.part.id.starts_with(kOwners);
}

Ledger::State Ledger::OwnersPart(const std::string& owner, const Instant& now) const {
  State state;
  state.record = series_;
  state.part.id = std::string(kOwners) + owner;
  state.part.owner = owner;
  state.started_ms = now.unix_ms;
  state.held_ms = state.sampled_ms = state.disk_ms = now.boot_ms;
  state.offset_ms = now.offset_ms();
  return state;
}

void Ledger::Keep(const std::map<std::string, Held>& kept, const Instant& now) {
  for (const auto& [owner, held] : kept) {
    const std::string id = std::string(kOwners) + owner;
    if (Find(id) == nullptr) parts_.emplace(id, OwnersPart(owner, now));
  }
  for (auto& [id, state] : parts_) {
    if (!IsOwners(state)) continue;
    const auto found = kept.find(state.part.owner);
    SetHeld(state, found == kept.end() ? Held() : found->second, now);
  }
}

void Ledger::KeepUnowned(uint64_t parked, const Instant& now) {
  AccrueUnowned(now);
  unowned_ = parked;
}

void Ledger::AccrueUnowned(const Instant& now) {
  const int64_t span_ms = now.boot_ms - unowned_ms_;
  if (unowned_ != 0 && span_ms > 0) {
    Spread(&host_pending_, unowned_ms_, now, &Amounts::parked_us,
           Signed(unowned_) * span_ms * 1000);
  }
  unowned_ms_ = now.boot_ms;
}

void Ledger::TakeCounters(State& state, const UsageReading& reading, const Instant& now) {
  UsageReading& last = state.last;
  state.changed = true;
  state.offset_ms = now.offset_ms();
  const int64_t from_ms = std::min(state.sampled_ms, now.boot_ms);
  const int64_t cpu_us = Grown(reading.cpu_us, last.cpu_us);
  Spread(&state.pending, from_ms, now, &Amounts::cpu_us, cpu_us);
  host_pending_[now.unix_ms / kHourMs].cpu_us -= cpu_us;
  const auto take = [&](uint64_t UsageReading::*counter, int64_t Amounts::*value) {
    Spread(&state.pending, from_ms, now, value, Grown(reading.*counter, last.*counter));
    last.*counter = std::max(last.*counter, reading.*counter);
  };
  last.cpu_us = std::max(last.cpu_us, reading.cpu_us);
  take(&UsageReading::bytes_in, &Amounts::bytes_in);
  take(&UsageReading::bytes_out, &Amounts::bytes_out);
  take(&UsageReading::read_bytes, &Amounts::read_bytes);
  take(&UsageReading::written_bytes, &Amounts::written_bytes);
}

void Ledger::TakeDisk(State& state, uint64_t bytes, const Instant& now) {
  // The first reading stands for half of the time before it: the disk was empty at the beginning.
  const uint64_t before = state.last.disk_bytes.value_or(0);
  const int64_t span_ms = std::max<int64_t>(now.boot_ms - state.disk_ms, 0);
  Spread(&state.pending, state.disk_ms, now, &Amounts::disk_kib_ms,
         Signed((before + bytes) / 2048) * span_ms);
  state.last.disk_bytes = bytes;
  state.disk_ms = std::max(state.disk_ms, now.boot_ms);
  state.offset_ms = now.offset_ms();
  state.changed = true;
}

void Ledger::SampleDisk(const std::string& part, uint64_t bytes, const Instant& now) {
  State* const state = Find(part);
  if (state != nullptr && state->ended_ms == 0) TakeDisk(*state, bytes, now);
}

void Ledger::CountCommands(const std::string& part, int64_t commands, const Instant& now) {
  State* const state = Find(part);
  if (state == nullptr) return;
  state->pending[now.unix_ms / kHourMs].commands += commands;
  state->changed = true;
}

void Ledger::Sample(const std::string& part, const UsageReading& reading, const Instant& now) {
  State* const state = Find(part);
  if (state == nullptr || state->ended_ms != 0) return;
  TakeCounters(*state, reading, now);
  Accrue(*state, now);
  if (reading.memory_bytes) {
    // The first sample stands for all the time before it.
    const uint64_t before = state->last.memory_bytes.value_or(*reading.memory_bytes);
    const int64_t span_ms = std::max<int64_t>(now.boot_ms - state->sampled_ms, 0);
    Spread(&state->pending, state->sampled_ms, now, &Amounts::memory_kib_ms,
           Signed((before + *reading.memory_bytes) / 2048) * span_ms);
    state->last.memory_bytes = reading.memory_bytes;
  }
  state->sampled_ms = std::max(state->sampled_ms, now.boot_ms);
  state->changed = true;
}

void Ledger::End(const std::string& part, const std::optional<UsageReading>& reading,
                 const Instant& ended) {
  State* const state = Find(part);
  if (state == nullptr || (state->ended_ms != 0 && !state->estimated)) return;
  if (!reading) {
    if (state->ended_ms != 0) return;
    state->ended_ms = std::max(state->sampled_ms + state->offset_ms, int64_t{1});
    state->estimated = true;
    state->changed = true;
    return;
  }
  const int64_t span_ms = std::max<int64_t>(ended.boot_ms - state->sampled_ms, 0);
  const Instant now{ended.offset_ms() + state->sampled_ms + span_ms, state->sampled_ms + span_ms};
  TakeCounters(*state, *reading, now);
  Accrue(*state, now);
  if (reading->disk_bytes) TakeDisk(*state, *reading->disk_bytes, now);
  uint64_t mean = 0;
  if (!state->last.memory_bytes) {
    // It was too short for a sample.
    mean = reading->peak_memory_bytes / 2;
  } else {
    mean =
        (*state->last.memory_bytes + reading->memory_bytes.value_or(*state->last.memory_bytes)) / 2;
  }
  Spread(&state->pending, state->sampled_ms, now, &Amounts::memory_kib_ms,
         Signed(mean / 1024) * span_ms);
  state->sampled_ms = now.boot_ms;
  state->ended_ms = now.unix_ms;
  state->estimated = false;
  state->changed = true;
}

void Ledger::EndOthers(const std::unordered_set<std::string>& living) {
  std::vector<std::string> others;
  for (const auto& [id, state] : parts_) {
    if (state.ended_ms == 0 && !IsOwners(state) && !living.contains(id)) others.push_back(id);
  }
  for (const std::string& id : others) End(id, std::nullopt, {});
}

void Ledger::SampleHost(uint64_t cpu_us, const Instant& now) {
  // The first start has no earlier value; the past belongs to nobody's ledger.
  const uint64_t before = host_cpu_us_.value_or(cpu_us);
  host_pending_[now.unix_ms / kHourMs].cpu_us += Grown(cpu_us, before);
  host_cpu_us_ = cpu_us;
  host_changed_ = true;
  AccrueUnowned(now);
  for (auto& [id, state] : parts_) {
    if (IsOwners(state) && state.held != Held()) Accrue(state, now);
  }
}

Status Ledger::Write(State& state) {
  const UsagePart& part = state.part;
  sqlite::Stmt& statement = state.number == 0 ? *insert_ : *update_;
  int column = 0;
  const auto number = [&](uint64_t value) { statement.Bind(++column, Signed(value)); };
  const auto known = [&](const std::optional<uint64_t>& value) {
    value ? number(*value) : static_cast<void>(statement.BindNull(++column));
  };
  statement.Bind(++column, part.id);
  statement.Bind(++column, part.sandbox);
  statement.Bind(++column, part.owner);
  statement.Bind(++column, part.image);
  statement.Bind(++column, LabelsText(part.labels));
  statement.Bind(++column, state.record);
  statement.Bind(++column, state.started_ms);
  number(state.held.cpu_millis);
  number(state.held.memory_bytes);
  statement.Bind(++column, state.held_ms + state.offset_ms);
  statement.Bind(++column, state.sampled_ms + state.offset_ms);
  number(state.last.cpu_us);
  known(state.last.memory_bytes);
  number(state.last.bytes_in);
  number(state.last.bytes_out);
  number(state.last.read_bytes);
  number(state.last.written_bytes);
  known(state.last.disk_bytes);
  statement.Bind(++column, state.disk_ms + state.offset_ms);
  statement.Bind(++column, state.ended_ms);
  statement.Bind(++column, int64_t{state.estimated});
  number(state.held.snapshot_bytes);
  number(state.held.parked);
  statement.Bind(++column, state.offset_ms);
  int64_t row = state.number;
  if (row != 0) statement.Bind(++column, row);
  ATOLL_TRY(statement.Run());
  if (row == 0) row = db_.LastInsertId();
  for (const auto& [hour, amounts] : state.pending) {
    add_->Bind(1, hour).Bind(2, row);
    int value = 3;
    for (const AmountField& field : kAmounts) add_->Bind(value++, amounts.*field.value);
    ATOLL_TRY(add_->Run());
    ++added_;
  }
  return {};
}

Status Ledger::Commit(const Instant& now, bool durable) {
  if (durable != durable_) {
    ATOLL_TRY(db_.Exec(durable ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL"));
    durable_ = durable;
  }
  // The states in memory become clean only if all of them are written.
  std::vector<State*> written;
  std::vector<std::pair<std::string, int64_t>> numbers;
  ATOLL_ASSIGN(sqlite::Transaction transaction, sqlite::Transaction::Begin(db_));
  for (auto& [id, state] : parts_) {
    if (!state.changed && state.pending.empty()) continue;
    ATOLL_TRY(Write(state));
    written.push_back(&state);
    if (state.number == 0) numbers.emplace_back(id, db_.LastInsertId());
  }
  for (const auto& [hour, amounts] : host_pending_) {
    ATOLL_TRY(add_host_->Bind(1, hour).Bind(2, amounts.cpu_us).Bind(3, amounts.parked_us).Run());
  }
  if (host_changed_) {
    ATOLL_TRY(set_->Bind(1, "boot").Bind(2, boot_).Run());
    if (host_cpu_us_) {
      ATOLL_TRY(set_->Bind(1, "host_cpu_us").Bind(2, std::to_string(*host_cpu_us_)).Run());
    }
  }
  ATOLL_TRY(transaction.Commit());
  for (State* const state : written) {
    state->changed = false;
    state->pending.clear();
  }
  host_pending_.clear();
  host_changed_ = false;
  for (const auto& [id, number] : numbers) {
    parts_.at(id).number = number;
  }
  std::erase_if(parts_, [](const auto& entry) { return entry.second.ended_ms != 0; });
  const Hour hour = now.unix_ms / kHourMs;
  // Sandboxes that come fast can fill the ledger within an hour.
  if (hour == pruned_ && added_ <= settings_.most_rows / kShares) return {};
  ATOLL_TRY(Prune(now));
  pruned_ = hour;
  added_ = 0;
  return {};
}

Result<UsageAnswer> Ledger::Query(const UsageQuery& query) {
  const Hour since = query.since_ms / kHourMs;
  const Hour until = (query.until_ms + kHourMs - 1) / kHourMs;
  const int64_t step = std::max<int64_t>(query.step_hours, 0);
  UsageAnswer answer;
  answer.complete = since >= complete_from_;
  const bool named = !query.sandboxes.empty();
  for (const auto& [owner, from] : folded_) {
    const bool asked = !query.owner || *query.owner == owner;
    const bool sums = query.by == UsageQuery::By::kTenant && !named;
    if (asked && !sums) answer.complete = answer.complete && since >= from;
  }
  const bool each = query.by == UsageQuery::By::kSandbox && !named;
  std::string sums;
  for (const AmountField& field : kAmounts) {
    sums.append(", SUM(u.").append(field.column).append(")");
  }
  const std::string start = step == 0 ? "0" : "(u.hour/?6)*?6";
  // A bill counts each part once, so a rolled back sandbox has a row for each of its parts.
  const std::string record = each ? "p.record || '-' || p.number" : "''";
  std::string sql =
      "SELECT " + KeyOf(query.by) + " AS k, " + start + " AS h, " + record +
      " AS r, MAX(p.estimated" + (named ? " OR p.ended_ms=0" : "") + ")" + sums +
      " FROM usage u JOIN parts p ON p.number=u.number WHERE u.hour>=?1 AND u.hour<?2";
  if (query.owner) sql += " AND p.owner=?3";
  if (named) sql += " AND p.sandbox IN (SELECT value FROM json_each(?4))";
  ATOLL_ASSIGN(sqlite::Stmt select,
               db_.Prepare(sql + " GROUP BY k, h, r ORDER BY SUM(u.cpu_us) DESC, k, h"));
  select.Bind(1, since).Bind(2, until);
  if (query.owner) select.Bind(3, *query.owner);
  if (named) select.Bind(4, JsonText(nlohmann::json(query.sandboxes)));
  if (query.by == UsageQuery::By::kLabel) select.Bind(5, query.label);
  if (step != 0) select.Bind(6, step);
  std::map<int64_t, Amounts> other;
  for (;;) {
    ATOLL_ASSIGN(const bool row, select.Step());
    if (!row) break;
    answer.complete = answer.complete && select.ColumnInt(3) == 0;
    UsageRow found{.key = select.ColumnText(0),
                   .record = select.ColumnText(2),
                   .started_ms = select.ColumnInt(1) * kHourMs,
                   .amounts = {}};
    int column = 4;
    for (const AmountField& field : kAmounts)
      found.amounts.*field.value = select.ColumnInt(column++);
    if (answer.rows.size() < kMaxRows) {
      answer.rows.push_back(std::move(found));
      continue;
    }
    Amounts& sum = other[found.started_ms];
    for (const AmountField& field : kAmounts) sum.*field.value += found.amounts.*field.value;
  }
  for (const auto& [started_ms, amounts] : other) {
    answer.rows.push_back(
        {.key = kOtherKey, .record = "", .started_ms = started_ms, .amounts = amounts});
  }
  if (!query.owner) {
    ATOLL_ASSIGN(
        sqlite::Stmt host,
        db_.Prepare("SELECT COALESCE(SUM(cpu_us), 0), COALESCE(SUM(parked_us), 0) FROM host "
                    "WHERE hour>=?1 AND hour<?2"));
    ATOLL_ASSIGN([[maybe_unused]] const bool row, host.Bind(1, since).Bind(2, until).Step());
    answer.unallocated_cpu_us = host.ColumnInt(0);
    answer.unallocated_parked_us = host.ColumnInt(1);
  }
  return answer;
}

}  // namespace atl::tenants
