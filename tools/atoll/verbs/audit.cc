// atoll audit verify
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "runtime/base/json_text.h"
#include "runtime/tenants/audit/audit_verify.h"
#include "tools/atoll/verbs/verbs.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

constexpr char kDirectory[] = "/var/log/atoll/audit";

nlohmann::json ReportJson(const audit::VerifyReport& report) {
  nlohmann::json shown = {{"good", report.good()},
                          {"files", report.files},
                          {"lines", report.lines},
                          {"firstSeq", report.first_seq},
                          {"head", {{"seq", report.head.seq}, {"hash", report.head.hash}}},
                          {"time", report.time},
                          {"incompleteBytes", report.torn},
                          {"boots", nlohmann::json::array()},
                          {"gaps", nlohmann::json::array()}};
  for (const auto& boot : report.boots) {
    shown["boots"].push_back({{"id", boot.id}, {"firstSeq", boot.first_seq}, {"time", boot.time}});
  }
  for (const auto& gap : report.gaps) shown["gaps"].push_back(JsonOrNull(gap.line));
  if (report.bad) {
    shown["bad"] = {
        {"file", report.bad->file}, {"line", report.bad->line}, {"reason", report.bad->reason}};
  }
  if (!report.head_trouble.empty()) shown["headTrouble"] = report.head_trouble;
  return shown;
}

void PrintReport(const audit::VerifyReport& report) {
  std::printf(
      "%llu lines in %llu files, from line %llu to line %llu (%s), %zu starts of the daemon\n",
      static_cast<unsigned long long>(report.lines), static_cast<unsigned long long>(report.files),
      static_cast<unsigned long long>(report.first_seq),
      static_cast<unsigned long long>(report.head.seq), report.time.c_str(), report.boots.size());
  for (const auto& gap : report.gaps) {
    const nlohmann::json line = JsonOrNull(gap.line);
    std::printf("gap at line %llu, %s: %s\n", static_cast<unsigned long long>(gap.seq),
                line.value("time", "").c_str(),
                Printable(JsonText(line.value("what", nlohmann::json::object()))).c_str());
  }
  if (report.torn != 0) {
    std::printf(
        "the last %llu bytes are an incomplete line: the daemon is writing it, or the host "
        "lost power\n",
        static_cast<unsigned long long>(report.torn));
  }
  std::printf("head %llu:%s\n", static_cast<unsigned long long>(report.head.seq),
              report.head.hash.c_str());
  if (report.bad) {
    std::printf("BAD: %s line %llu: %s\n", report.bad->file.c_str(),
                static_cast<unsigned long long>(report.bad->line), report.bad->reason.c_str());
  }
  if (!report.head_trouble.empty()) std::printf("BAD: %s\n", report.head_trouble.c_str());
  if (report.good()) std::puts("good: no line was changed, removed or inserted");
}

Result<int> Verify(const Settings& settings, const std::string& directory,
                   const std::string& head) {
  std::optional<audit::Head> expected;
  if (!head.empty()) {
    ATOLL_ASSIGN(expected, audit::ParseHead(head));
  }
  ATOLL_ASSIGN(const audit::VerifyReport report, audit::VerifyLog(directory, expected));
  if (report.files == 0) return Fail(Code::kNotFound, "there is no audit log in " + directory);
  if (settings.json) {
    std::puts(JsonText(ReportJson(report)).c_str());
  } else {
    PrintReport(report);
  }
  return report.good() ? 0 : kFailed;
}

}  // namespace

void AddAuditVerbs(Verb& root, const Settings& settings) {
  Verb& audit = root.Add("audit", "Read and verify the audit log");
  struct Check {
    std::string directory = kDirectory;
    std::string head;
  };
  const auto words = std::make_shared<Check>();
  audit.Add("verify", "Check that no line of the audit log was changed, removed or inserted")
      .Takes(Option{"--directory", "DIRECTORY", "Where the log is (audit.directory)",
                    &words->directory})
      .Takes(Option{"--head", "SEQ:HASH", "A line that must be there, from the journal or a sink",
                    &words->head})
      .Says(
          "Reads the files of this host, so it needs no daemon; run it as root, or in the group "
          "adm.\n"
          "The chain alone does not show that lines are missing at its end, or that root wrote it\n"
          "anew. Compare it with a head that is kept elsewhere: the daemon tells the journal one "
          "each\n"
          "minute ('audit head'). Exit code 0 if all is good, else 1.\n\n"
          "Examples:\n"
          "  sudo atoll audit verify\n"
          "  sudo atoll audit verify --head 1041:9f86d081884c7d65…")
      .Does([words, &settings] { return Verify(settings, words->directory, words->head); });
}

}  // namespace atl::cli
