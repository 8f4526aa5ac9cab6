// atoll audit verify|search|tail|export|hash
#include <poll.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "runtime/base/clock.h"
#include "runtime/base/duration.h"
#include "runtime/base/json_text.h"
#include "runtime/base/sys.h"
#include "runtime/base/utc_time.h"
#include "runtime/tenants/audit/audit_search.h"
#include "runtime/tenants/audit/audit_verify.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/verbs/audit_export.h"
#include "tools/atoll/verbs/verbs.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

constexpr char kDirectory[] = "/var/log/atoll/audit";

nlohmann::json ReportJson(const audit::VerifyReport& report) {
  nlohmann::json shown = {{"good", report.good()},
                          {"files", report.files},
                          {"lines", report.lines},
                          {"keptLines", report.kept},
                          {"firstSeq", report.first_seq},
                          {"foundSo", report.found_so},
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
  if (report.kept != 0) {
    std::printf("%llu lines of tenants are kept from files before them\n",
                static_cast<unsigned long long>(report.kept));
  }
  if (!report.found_so.empty()) {
    std::printf(
        "lines before line %llu are missing, and the log does not tell why: a daemon found it so "
        "at %s, and an older release or somebody had deleted them\n",
        static_cast<unsigned long long>(report.first_seq), report.found_so.c_str());
  }
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

// ---- reading

struct Selection {
  std::string since;
  std::string until;
  std::string action;
  std::string actor;
  std::string sandbox;
  std::string directory;  // empty: the server is asked
  int most = 0;           // 0: all
};

using EachLine = std::function<Status(std::string_view line)>;

// Returns the time in the form of the lines: that of a duration is so long ago.
Result<std::string> LineTime(const std::string& option, const std::string& text) {
  if (text.empty() || text.find('T') != std::string::npos) return text;
  const auto seconds = ParseDuration(text);
  if (!seconds) {
    return Wrong(option + " " + text +
                 ": a duration is expected, such as 10m or 7d, or a time: 2026-11-28T05:00:00Z");
  }
  const int64_t then = UnixMillis() / 1000 - *seconds;
  return std::string(UtcTime(then, 0, 6).text());
}

struct PageEnd {
  uint64_t next = 0;  // the server has looked at the lines up to this one
  bool more = false;
};
// Reads lines behind `after` from the server.
Result<PageEnd> ReadPage(Api& api, const audit::Query& query, uint64_t after, size_t limit,
                         const EachLine& each) {
  std::string target = "/audit?limit=" + std::to_string(limit) + "&after=" + std::to_string(after);
  for (const auto& [name, value] : {std::pair{"since", &query.since},
                                    {"until", &query.until},
                                    {"action", &query.action},
                                    {"actor", &query.actor},
                                    {"target", &query.target}}) {
    if (!value->empty()) target.append("&").append(name).append("=").append(PercentEncode(*value));
  }
  ATOLL_ASSIGN(const http::Response page, api.Send("GET", target));
  std::string_view rest = page.body;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    ATOLL_TRY(each(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  uint64_t next = after;
  const std::string_view told = page.headers.Get("Atoll-Audit-Next");
  std::from_chars(told.data(), told.data() + told.size(), next);
  return PageEnd{std::max(next, after), page.headers.Get("Atoll-Audit-More") == "true"};
}

Result<audit::Query> QueryOf(const Selection& selection) {
  audit::Query query{
      .action = selection.action, .actor = selection.actor, .target = selection.sandbox};
  ATOLL_ASSIGN(query.since, LineTime("--since", selection.since));
  ATOLL_ASSIGN(query.until, LineTime("--until", selection.until));
  return query;
}

Status ReadLines(const Settings& settings, const Selection& selection, const EachLine& each) {
  ATOLL_ASSIGN(const audit::Query query, QueryOf(selection));
  const auto most = static_cast<size_t>(selection.most);
  size_t count = 0;
  if (!selection.directory.empty()) {
    Status told;
    ATOLL_TRY(audit::Search(selection.directory, query, [&](std::string_view line) {
      told = each(line);
      return told && (most == 0 || ++count < most);
    }));
    return told;
  }
  constexpr size_t kPage = 1000;
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  for (uint64_t after = 0;;) {
    const size_t limit = most == 0 ? kPage : std::min(kPage, most - count);
    ATOLL_ASSIGN(const PageEnd end, ReadPage(api, query, after, limit, [&](std::string_view line) {
                   ++count;
                   return each(line);
                 }));
    if (!end.more || (most != 0 && count >= most)) return {};
    after = end.next;
  }
}

Status PutLine(std::string_view line) {
  return sys::WriteAll(STDOUT_FILENO, std::string(line) + "\n");
}

// Prints a line for people: time, action, outcome, actor, target, facts.
Status PrintShort(std::string_view line) {
  const nlohmann::json read = JsonOrNull(line);
  if (!read.is_object()) return PutLine(Printable(line));
  const auto part = [&read](const char* object, const char* name) {
    const auto found = read.find(object);
    return found != read.end() && found->is_object() ? found->value(name, "") : std::string();
  };
  const std::string actor =
      part("actor", "id").empty() ? part("actor", "kind") : part("actor", "id");
  std::string text = read.value("time", "") + "  " + read.value("action", "") + "  " +
                     read.value("outcome", "") + "  by " + actor;
  if (const std::string tenant = read.value("tenant", ""); !tenant.empty()) text += " of " + tenant;
  if (const std::string ip = part("from", "ip"); !ip.empty()) text += " from " + ip;
  if (const std::string id = part("target", "id"); !id.empty()) {
    text += "  " + part("target", "kind") + " " + id;
  }
  if (read.contains("what")) text += "  " + JsonText(read["what"]);
  return PutLine(Printable(text));
}

// Prints the last lines. Sets `after` to the line that the server looked at last.
Status PrintLastLines(Api& api, size_t most, const EachLine& print, uint64_t* after) {
  std::deque<std::string> last;
  for (bool more = true; more;) {
    ATOLL_ASSIGN(const PageEnd end,
                 ReadPage(api, {}, *after, 1000, [&](std::string_view line) -> Status {
                   last.emplace_back(line);
                   if (last.size() > most) last.pop_front();
                   return {};
                 }));
    *after = end.next;
    more = end.more;
  }
  for (const std::string& line : last) ATOLL_TRY(print(line));
  return {};
}

Status TailLines(const Settings& settings, int lines, bool follow) {
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  const EachLine print = settings.json ? EachLine(PutLine) : EachLine(PrintShort);
  const auto back = static_cast<uint64_t>(lines);
  uint64_t after = 0;
  const auto answer = api.Send("GET", "/audit/head");
  if (answer) {
    const uint64_t head = JsonOrNull(answer->body).value("seq", uint64_t{0});
    after = head > back ? head - back : 0;
  } else if (answer.error().code() == Code::kPermissionDenied) {
    // A developer may read its lines and not the head, so they are read to the end.
    ATOLL_TRY(PrintLastLines(api, back, print, &after));
  } else {
    return Fail(answer.error());
  }
  for (;;) {
    ATOLL_ASSIGN(const PageEnd end, ReadPage(api, {}, after, 1000, print));
    after = end.next;
    if (end.more) continue;
    if (!follow) return {};
    constexpr int kSecondMs = 1000;
    ::poll(nullptr, 0, kSecondMs);
  }
}

Status ExportLines(const Settings& settings, const Selection& selection,
                   const std::string& format) {
  if (format == "json") return ReadLines(settings, selection, PutLine);
  if (format != "csv" && format != "ocsf")
    return Wrong("--format " + format + ": use ocsf, csv or json");
  const bool csv = format == "csv";
  if (csv) ATOLL_TRY(PutLine(kCsvHeading));
  return ReadLines(settings, selection, [csv](std::string_view line) -> Status {
    ATOLL_ASSIGN(const std::string shown, csv ? CsvRow(line) : OcsfEvent(line));
    return PutLine(shown);
  });
}

Status Hash(const Settings& settings, std::string text) {
  constexpr size_t kMost = 64 << 10;
  if (text == "-") {
    ATOLL_ASSIGN(text, sys::ReadAll(STDIN_FILENO, kMost));
    if (text.ends_with('\n')) text.pop_back();
  }
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const http::Response answer,
               api.Send("POST", "/audit/hash", JsonText({{"text", text}})));
  return PutLine(settings.json ? answer.body : JsonOrNull(answer.body).value("hmac", ""));
}

void TakesSelection(Verb& verb, Selection* selection) {
  verb.Takes(Option{"--since", "TIME", "From then on: 2026-11-28T05:00:00Z, or 10m, 7d ago",
                    &selection->since})
      .Takes(Option{"--until", "TIME", "Before then", &selection->until})
      .Takes(Option{"--action", "ACTION", "exec.command, or all of a group: 'exec.*'",
                    &selection->action})
      .Takes(Option{"--actor", "NAME", "Of this key or person", &selection->actor})
      .Takes(Option{"--sandbox", "ID", "About this sandbox, or the image or volume of that name",
                    &selection->sandbox})
      .Takes(Option{"--directory", "DIRECTORY", "Read the files there, not the server",
                    &selection->directory});
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

  const auto search = std::make_shared<Selection>();
  Verb& searches = audit.Add("search", "Print the lines that match, oldest first");
  TakesSelection(searches, search.get());
  searches
      .Takes(Option{"-n,--limit", "N", "At most so many", &search->most, Range{0, 1'000'000'000}})
      .Says(
          "Examples:\n"
          "  atoll audit search --action 'exec.*' --since 1h\n"
          "  atoll audit search --actor key:1f2e3d4c --json")
      .Does([search, &settings] {
        return ReadLines(settings, *search,
                         settings.json ? EachLine(PutLine) : EachLine(PrintShort));
      });

  struct LastLines {
    int lines = 10;
    bool follow = false;
  };
  const auto end = std::make_shared<LastLines>();
  audit.Add("tail", "Print the last lines")
      .Takes(Option{"-n,--lines", "N", "So many", &end->lines, Range{0, 1000}})
      .Takes(Option{"-f,--follow", "", "Go on with those to come", &end->follow})
      .Does([end, &settings] { return TailLines(settings, end->lines, end->follow); });

  struct ExportOptions {
    Selection selection;
    std::string format = "ocsf";
  };
  const auto exported = std::make_shared<ExportOptions>();
  Verb& exports = audit.Add("export", "Print lines in a form for other programs");
  TakesSelection(exports, &exported->selection);
  exports
      .Takes(Option{"--format", "FORMAT", "ocsf (the default), csv, or json: the lines as they are",
                    &exported->format})
      .Says(
          "Examples:\n"
          "  atoll audit export --since 1d | gzip > audit.ocsf.gz\n"
          "  atoll audit export --format csv --action 'sandbox.*' > sandboxes.csv")
      .Does([exported, &settings] {
        return ExportLines(settings, exported->selection, exported->format);
      });

  const auto text = std::make_shared<std::string>();
  audit.Add("hash", "Print the HMAC of a command, as argv_hmac has it")
      .Takes(Argument{"TEXT", "The command; - reads it from the standard input", text.get()})
      .Says(
          "Finds out whether a command was run, without its text in the log:\n"
          "  atoll audit export --format json | grep \"$(atoll audit hash 'rm -rf /data')\"")
      .Does([text, &settings] { return Hash(settings, *text); });
}

}  // namespace atl::cli
