#include "tools/doctor/doctor.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "runtime/base/json_text.h"
#include "tools/atoll/words/text.h"
#include "tools/doctor/checks.h"

namespace atl::doctor {
namespace {

std::vector<Finding> Examine(const HostOptions& options, const cli::Settings& settings) {
  // A named server may run on another host.
  if (!settings.server.empty()) return CheckDaemon(settings);
  std::vector<Finding> findings = {CheckRoot(),    CheckKernelVersion(), CheckUserNamespaces(),
                                   CheckSeccomp(), CheckMemfdExec(),     CheckOverlay(options)};
  for (Finding& finding : CheckCgroups()) findings.push_back(std::move(finding));
  for (Finding& finding : CheckNetwork()) findings.push_back(std::move(finding));
  for (Finding& finding : CheckBudgets()) findings.push_back(std::move(finding));
  findings.push_back(CheckDataDir(options));
  findings.push_back(CheckDiskLimits(options));
  findings.push_back(CheckUser(options));
  findings.push_back(CheckPort(options));
  for (Finding& finding : CheckGpu()) findings.push_back(std::move(finding));
  for (Finding& finding : CheckVm(options)) findings.push_back(std::move(finding));
  for (Finding& finding : CheckDaemon(settings)) findings.push_back(std::move(finding));
  return findings;
}

const char* GradeName(Grade grade) {
  switch (grade) {
    case Grade::kOk:
      return "ok";
    case Grade::kWarning:
      return "warn";
    case Grade::kMissing:
      return "missing";
  }
  return "";
}

const char* Colour(Grade grade) {
  switch (grade) {
    case Grade::kOk:
      return "\033[32m";
    case Grade::kWarning:
      return "\033[33m";
    case Grade::kMissing:
      return "\033[31m";
  }
  return "";
}

void PrintText(const std::vector<Finding>& findings) {
  const bool colour = cli::Coloured(STDOUT_FILENO);
  for (const Finding& finding : findings) {
    std::printf("%s%-8s%s %-16s %s", colour ? Colour(finding.grade) : "", GradeName(finding.grade),
                colour ? "\033[0m" : "", finding.name.c_str(),
                cli::Printable(finding.text).c_str());
    if (!finding.fix.empty()) std::printf(" -- %s", finding.fix.c_str());
    std::putchar('\n');
  }
}

void PrintJson(const std::vector<Finding>& findings, bool ready) {
  nlohmann::json checks = nlohmann::json::array();
  for (const Finding& finding : findings) {
    nlohmann::json check = {
        {"name", finding.name}, {"status", GradeName(finding.grade)}, {"text", finding.text}};
    if (!finding.fix.empty()) check["fix"] = finding.fix;
    checks.push_back(std::move(check));
  }
  const nlohmann::json report = {{"ready", ready}, {"checks", std::move(checks)}};
  std::puts(PrettyJson(report).c_str());
}

}  // namespace

int Run(const HostOptions& options, const cli::Settings& settings) {
  const std::vector<Finding> findings = Examine(options, settings);
  const bool ready = std::none_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.grade == Grade::kMissing;
  });
  if (settings.json) {
    PrintJson(findings, ready);
  } else {
    PrintText(findings);
    const std::string who = settings.server.empty() ? "This host" : settings.server;
    std::printf(ready ? "\n%s can run sandboxes.\n" : "\n%s cannot run sandboxes yet.\n",
                cli::Printable(who).c_str());
  }
  return ready ? 0 : 1;
}

}  // namespace atl::doctor
