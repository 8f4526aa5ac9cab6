// Keeps the ledger within its bounds of age and size.
#include <algorithm>
#include <utility>

#include "runtime/tenants/usage/ledger.h"

namespace atl::tenants {
namespace {

// Amounts that may become one of their owner. An estimate shows in answers, so it stays apart.
constexpr char kFromDetails[] =
    " FROM usage u JOIN parts p ON p.number=u.number WHERE p.estimated=0 AND p.sandbox<>''";
// Bytes of a part that its owner chooses.
constexpr char kTextBytes[] = "LENGTH(CAST(labels AS BLOB)) + LENGTH(CAST(image AS BLOB))";

Result<int64_t> Number(sqlite::Db& db, const std::string& sql) {
  ATOLL_ASSIGN(sqlite::Stmt statement, db.Prepare(sql));
  ATOLL_ASSIGN(const bool row, statement.Step());
  return row ? statement.ColumnInt(0) : 0;
}

}  // namespace

Status Ledger::DropBefore(Hour first) {
  const std::string before = std::to_string(first);
  ATOLL_ASSIGN(sqlite::Transaction transaction, sqlite::Transaction::Begin(db_));
  ATOLL_TRY(db_.Exec("DELETE FROM usage WHERE hour<" + before + "; DELETE FROM host WHERE hour<" +
                     before + "; DELETE FROM parts WHERE ended_ms<>0 AND ended_ms<" + before + "*" +
                     std::to_string(kHourMs) + "; DELETE FROM facts WHERE name LIKE '" +
                     std::string(kFolded) + "%' AND CAST(value AS INTEGER)<=" + before));
  ATOLL_TRY(set_->Bind(1, "complete_from").Bind(2, before).Run());
  ATOLL_TRY(transaction.Commit());
  complete_from_ = first;
  std::erase_if(folded_, [first](const auto& entry) { return entry.second <= first; });
  return {};
}

Result<Ledger::Costs> Ledger::FoldableCosts() {
  Costs costs;
  // The text of a part goes with its last amount.
  for (const std::string& sql :
       {"SELECT p.owner, u.hour, COUNT(*)" + std::string(kFromDetails) + " GROUP BY 1, 2",
        "SELECT owner, ended_ms/" + std::to_string(kHourMs) + ", SUM(" + kTextBytes + ")/" +
            std::to_string(kRowBytes) +
            " FROM parts WHERE ended_ms<>0 AND estimated=0 GROUP BY 1, 2"}) {
    ATOLL_ASSIGN(sqlite::Stmt select, db_.Prepare(sql));
    for (;;) {
      ATOLL_ASSIGN(const bool row, select.Step());
      if (!row) break;
      costs[select.ColumnText(0)][select.ColumnInt(1)] += select.ColumnInt(2);
    }
  }
  return costs;
}

Status Ledger::Fold(const std::string& owner, Hour last, const Instant& now) {
  const std::string id = std::string(kOwners) + owner;
  State made = OwnersPart(owner, now);
  const State* const known = Find(id);
  int64_t number = known != nullptr ? known->number : 0;
  std::string columns, sums, added;
  for (const AmountField& field : kAmounts) {
    const std::string name = field.column;
    columns += ", " + name;
    sums += ", SUM(u." + name + ")";
    added += (added.empty() ? "" : ", ") + name + "=" + name + "+excluded." + name;
  }
  ATOLL_ASSIGN(sqlite::Transaction transaction, sqlite::Transaction::Begin(db_));
  if (number == 0) {
    ATOLL_TRY(Write(made));
    number = db_.LastInsertId();
  }
  ATOLL_ASSIGN(sqlite::Stmt fold,
               db_.Prepare("INSERT INTO usage (hour, number" + columns + ") SELECT u.hour, ?2" +
                           sums + kFromDetails + " AND p.owner=?1 AND u.hour<=?3 GROUP BY u.hour " +
                           "ON CONFLICT (hour, number) DO UPDATE SET " + added));
  ATOLL_TRY(fold.Bind(1, owner).Bind(2, number).Bind(3, last).Run());
  ATOLL_ASSIGN(sqlite::Stmt amounts,
               db_.Prepare("DELETE FROM usage WHERE hour<=?2 AND number IN (SELECT number FROM "
                           "parts p WHERE p.owner=?1 AND p.estimated=0 AND p.sandbox<>'')"));
  ATOLL_TRY(amounts.Bind(1, owner).Bind(2, last).Run());
  ATOLL_ASSIGN(
      sqlite::Stmt parts,
      db_.Prepare("DELETE FROM parts WHERE owner=?1 AND ended_ms<>0 AND estimated=0 AND NOT "
                  "EXISTS (SELECT 1 FROM usage u WHERE u.number=parts.number)"));
  ATOLL_TRY(parts.Bind(1, owner).Run());
  ATOLL_TRY(set_->Bind(1, std::string(kFolded) + owner).Bind(2, std::to_string(last + 1)).Run());
  ATOLL_TRY(transaction.Commit());
  folded_[owner] = last + 1;
  if (known == nullptr) {
    made.number = number;
    made.changed = false;
    parts_.emplace(id, std::move(made));
  }
  return {};
}

Status Ledger::Prune(const Instant& now) {
  const Hour first = now.unix_ms / kHourMs - settings_.keep_hours;
  ATOLL_ASSIGN(const int64_t dropped,
               Number(db_, "SELECT COUNT(*) FROM usage WHERE hour<" + std::to_string(first)));
  if (dropped != 0) ATOLL_TRY(DropBefore(first));
  const auto count = [this] {
    return Number(db_, "SELECT COUNT(*) + (SELECT COALESCE(SUM(" + std::string(kTextBytes) +
                           "), 0)/" + std::to_string(kRowBytes) +
                           " FROM parts WHERE ended_ms<>0) FROM usage");
  };
  ATOLL_ASSIGN(int64_t rows, count());
  if (rows <= settings_.most_rows) return {};
  // Leaves some room, so that this is not done each hour.
  const int64_t most = settings_.most_rows - settings_.most_rows / kShares;
  ATOLL_ASSIGN(const Costs costs, FoldableCosts());
  std::map<std::string, int64_t> sums;
  std::vector<int64_t> levels;
  for (const auto& [owner, hours] : costs) {
    for (const auto& [hour, cost] : hours) sums[owner] += cost;
    levels.push_back(sums[owner]);
    rows -= sums[owner];
  }
  // The share: as much as each may have so that all together fit. Owners with less leave the rest.
  std::sort(levels.begin(), levels.end());
  int64_t left = std::max<int64_t>(most - rows, 0), share = left;
  for (size_t i = 0; i < levels.size(); ++i) {
    share = left / static_cast<int64_t>(levels.size() - i);
    if (levels[i] > share) break;
    left -= levels[i];
  }
  for (const auto& [owner, hours] : costs) {
    int64_t has = sums[owner];
    Hour last = 0;
    for (auto hour = hours.begin(); hour != hours.end() && has > share; ++hour) {
      last = hour->first;
      has -= hour->second;
    }
    if (last != 0) ATOLL_TRY(Fold(owner, last, now));
  }
  // Rows that cannot be folded go by their age, whoever has them.
  ATOLL_ASSIGN(rows, count());
  ATOLL_ASSIGN(const int64_t amounts, Number(db_, "SELECT COUNT(*) FROM usage"));
  const int64_t too_many = std::min(rows - settings_.most_rows, amounts);
  if (too_many <= 0) return {};
  ATOLL_ASSIGN(const int64_t newest,
               Number(db_, "SELECT hour FROM usage ORDER BY hour LIMIT 1 OFFSET " +
                               std::to_string(too_many - 1)));
  return DropBefore(newest + 1);
}

}  // namespace atl::tenants
