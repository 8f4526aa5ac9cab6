// atoll usage
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/base/duration.h"
#include "runtime/base/json_text.h"
#include "runtime/base/utc_time.h"
#include "tools/atoll/client/api.h"
#include "tools/atoll/client/json_text.h"
#include "tools/atoll/verbs/verbs.h"
#include "tools/atoll/words/csv.h"
#include "tools/atoll/words/text.h"

namespace atl::cli {
namespace {

using nlohmann::json;

struct UsageWords {
  std::string since = "1d", by = "tenant", step;
  bool csv = false, focus = false;
};

double Number(const json& item, const char* name) {
  const auto found = item.find(name);
  return found != item.end() && found->is_number() ? found->get<double>() : 0;
}
double Number(const json& item, const char* name, const char* part) {
  const auto found = item.find(name);
  return found != item.end() && found->is_object() ? Number(*found, part) : 0;
}

std::string Decimal(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

void PrintRow(const std::vector<std::string>& cells) {
  std::printf("%s\r\n", CsvLine(cells).c_str());
}

void PrintCsv(const json& items) {
  PrintRow({"key", "record", "start", "cpu_seconds", "cpu_reserved_seconds",
            "memory_used_gib_seconds", "memory_reserved_gib_seconds", "network_bytes_in",
            "network_bytes_out", "io_bytes_read", "io_bytes_written", "disk_gib_seconds",
            "commands", "creates", "snapshots_gib_seconds", "parked_seconds", "cost"});
  for (const json& item : items) {
    PrintRow(
        {TextOf(item, "key"), TextOf(item, "record"), TextOf(item, "start"),
         Decimal(Number(item, "cpu_seconds"), 6), Decimal(Number(item, "cpu_reserved_seconds"), 6),
         Decimal(Number(item, "memory_used_gib_seconds"), 6),
         Decimal(Number(item, "memory_reserved_gib_seconds"), 6),
         Decimal(Number(item, "network_bytes", "in"), 0),
         Decimal(Number(item, "network_bytes", "out"), 0),
         Decimal(Number(item, "io_bytes", "read"), 0),
         Decimal(Number(item, "io_bytes", "written"), 0),
         Decimal(Number(item, "disk_gib_seconds"), 6), Decimal(Number(item, "commands"), 0),
         Decimal(Number(item, "creates"), 0), Decimal(Number(item, "snapshots_gib_seconds"), 6),
         Decimal(Number(item, "parked_seconds"), 3),
         item.contains("cost") ? Decimal(Number(item, "cost"), 6) : ""});
  }
}

// The columns of FOCUS 1.0, the FinOps Open Cost and Usage Specification, in its order.
constexpr const char* kFocus[] = {"AvailabilityZone",
                                  "BilledCost",
                                  "BillingAccountId",
                                  "BillingAccountName",
                                  "BillingCurrency",
                                  "BillingPeriodEnd",
                                  "BillingPeriodStart",
                                  "ChargeCategory",
                                  "ChargeClass",
                                  "ChargeDescription",
                                  "ChargeFrequency",
                                  "ChargePeriodEnd",
                                  "ChargePeriodStart",
                                  "CommitmentDiscountCategory",
                                  "CommitmentDiscountId",
                                  "CommitmentDiscountName",
                                  "CommitmentDiscountStatus",
                                  "CommitmentDiscountType",
                                  "ConsumedQuantity",
                                  "ConsumedUnit",
                                  "ContractedCost",
                                  "ContractedUnitPrice",
                                  "EffectiveCost",
                                  "InvoiceIssuerName",
                                  "ListCost",
                                  "ListUnitPrice",
                                  "PricingCategory",
                                  "PricingQuantity",
                                  "PricingUnit",
                                  "ProviderName",
                                  "PublisherName",
                                  "RegionId",
                                  "RegionName",
                                  "ResourceId",
                                  "ResourceName",
                                  "ResourceType",
                                  "ServiceCategory",
                                  "ServiceName",
                                  "SkuId",
                                  "SkuPriceId",
                                  "SubAccountId",
                                  "SubAccountName",
                                  "Tags"};

// A unit that has a price.
struct Sku {
  const char* id;     // also the name of the price in the answer
  const char* unit;   // FOCUS 1.0, attribute UnitFormat
  const char* named;  // ChargeDescription
  double (*quantity)(const json& item);
};
constexpr double kHour = 3600, kGib = 1024.0 * 1024.0 * 1024.0;
constexpr Sku kSkus[] = {
    {"cpu_hour", "CPU-Hours", "Processor time used",
     [](const json& item) { return Number(item, "cpu_seconds") / kHour; }},
    {"cpu_reserved_hour", "CPU-Hours", "Processors reserved",
     [](const json& item) { return Number(item, "cpu_reserved_seconds") / kHour; }},
    {"memory_gib_hour", "GiB-Hours", "Memory used",
     [](const json& item) { return Number(item, "memory_used_gib_seconds") / kHour; }},
    {"memory_reserved_gib_hour", "GiB-Hours", "Memory reserved",
     [](const json& item) { return Number(item, "memory_reserved_gib_seconds") / kHour; }},
    {"disk_gib_hour", "GiB-Hours", "Disk used",
     [](const json& item) { return Number(item, "disk_gib_seconds") / kHour; }},
    {"network_gib", "GiB", "Bytes received and sent",
     [](const json& item) {
       return (Number(item, "network_bytes", "in") + Number(item, "network_bytes", "out")) / kGib;
     }},
    {"snapshots_gib_hour", "GiB-Hours", "Snapshots kept",
     [](const json& item) { return Number(item, "snapshots_gib_seconds") / kHour; }},
    {"parked_hour", "Hours", "Members of templates parked",
     [](const json& item) { return Number(item, "parked_seconds") / kHour; }},
};

// Returns the cells of a charge, in the order of kFocus.
std::vector<std::string> FocusRow(const json& answer, const json& item, const std::string& by,
                                  const Sku& sku) {
  const std::string key = TextOf(item, "key");
  const double amount = sku.quantity(item);
  const double unit_price = Number(answer, "prices", sku.id);
  const std::string quantity = Decimal(amount, 9), price = Decimal(unit_price, 9),
                    cost = Decimal(amount * unit_price, 9);
  const std::string since = TextOf(answer, "since"), until = TextOf(answer, "until");
  const json cells = {{"BilledCost", cost},
                      {"BillingAccountId", "atoll"},
                      {"BillingCurrency", TextOf(answer, "currency")},
                      {"BillingPeriodStart", since},
                      {"BillingPeriodEnd", until},
                      {"ChargeCategory", "Usage"},
                      {"ChargeDescription", sku.named},
                      {"ChargeFrequency", "Usage-Based"},
                      {"ChargePeriodStart", item.contains("start") ? TextOf(item, "start") : since},
                      {"ChargePeriodEnd", item.contains("end") ? TextOf(item, "end") : until},
                      {"ConsumedQuantity", quantity},
                      {"ConsumedUnit", sku.unit},
                      {"ContractedCost", cost},
                      {"ContractedUnitPrice", price},
                      {"EffectiveCost", cost},
                      {"InvoiceIssuerName", "Atoll"},
                      {"ListCost", cost},
                      {"ListUnitPrice", price},
                      {"PricingCategory", "Standard"},
                      {"PricingQuantity", quantity},
                      {"PricingUnit", sku.unit},
                      {"ProviderName", "Atoll"},
                      {"PublisherName", "Atoll"},
                      {"ResourceId", TextOf(item, "record")},
                      {"ResourceName", by == "sandbox" ? key : ""},
                      {"ResourceType", "Sandbox"},
                      {"ServiceCategory", "Compute"},
                      {"ServiceName", "Sandboxes"},
                      {"SkuId", sku.id},
                      {"SubAccountId", by == "tenant" ? key : ""},
                      {"SubAccountName", by == "tenant" ? key : ""},
                      {"Tags", by.starts_with("label:") ? JsonText({{by.substr(6), key}}) : "{}"}};
  std::vector<std::string> row;
  for (const char* column : kFocus) row.push_back(cells.value(column, ""));
  return row;
}

void PrintFocus(const json& answer, const std::string& by) {
  PrintRow(std::vector<std::string>(std::begin(kFocus), std::end(kFocus)));
  for (const json& item : answer.value("items", json::array())) {
    for (const Sku& sku : kSkus) {
      if (sku.quantity(item) > 0) PrintRow(FocusRow(answer, item, by, sku));
    }
  }
}

void PrintTable(const json& answer) {
  const bool costs = answer.contains("currency");
  Table table({"KEY", "CPU s", "RESERVED CPU s", "MEMORY GiB·s", "RESERVED GiB·s", "IN", "OUT",
               "COMMANDS", "CREATES", "SNAPSHOTS GiB·s", "PARKED s",
               costs ? "COST " + TextOf(answer, "currency") : ""});
  for (const json& item : answer.value("items", json::array())) {
    const std::string start = item.contains("start") ? " " + TextOf(item, "start") : "";
    const auto bytes = [&](const char* way) {
      return HumanSize(static_cast<uint64_t>(Number(item, "network_bytes", way)));
    };
    table.AddRow({TextOf(item, "key") + start, Decimal(Number(item, "cpu_seconds"), 3),
                  Decimal(Number(item, "cpu_reserved_seconds"), 0),
                  Decimal(Number(item, "memory_used_gib_seconds"), 3),
                  Decimal(Number(item, "memory_reserved_gib_seconds"), 1), bytes("in"),
                  bytes("out"), Decimal(Number(item, "commands"), 0),
                  Decimal(Number(item, "creates"), 0),
                  Decimal(Number(item, "snapshots_gib_seconds"), 1),
                  Decimal(Number(item, "parked_seconds"), 0),
                  costs ? Decimal(Number(item, "cost"), 4) : ""});
  }
  std::fputs(table.Text().c_str(), stdout);
  if (!answer.value("complete", true)) {
    std::fputs("incomplete: a part was estimated, or is no longer kept\n", stderr);
  }
}

Status ShowUsage(const Settings& settings, const UsageWords& words) {
  const auto seconds = ParseDuration(words.since);
  if (!seconds) {
    return Fail(Code::kInvalidArgument,
                "--since: '" + words.since + "' is not a duration; use one such as 7d");
  }
  if (words.csv && words.focus) return Wrong("use --csv or --focus");
  const int64_t now_s = std::chrono::duration_cast<std::chrono::seconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count();
  std::string target = "/usage?since=" + PercentEncode(UtcTime(now_s - *seconds, 0, 0).text()) +
                       "&by=" + PercentEncode(words.by);
  if (!words.step.empty()) target += "&step=" + PercentEncode(words.step);
  ATOLL_ASSIGN(Api api, Api::Connect(settings));
  ATOLL_ASSIGN(const json answer, Fetch(api, target));
  if (settings.json) {
    std::puts(JsonText(answer).c_str());
  } else if (words.csv) {
    PrintCsv(answer.value("items", json::array()));
  } else if (words.focus) {
    PrintFocus(answer, words.by);
  } else {
    PrintTable(answer);
  }
  return {};
}

}  // namespace

void AddUsageVerb(Verb& root, const Settings& settings) {
  const auto words = std::make_shared<UsageWords>();
  root.Add("usage", "What sandboxes have used: processor, memory, network; ended ones included")
      .Takes(Option{"--since", "DURATION", "How far back, in whole hours: 7d", &words->since})
      .Takes(Option{"--by", "WHAT", "tenant, image, sandbox or label:KEY", &words->by})
      .Takes(Option{"--step", "STEP", "A row for each step of time: 1h, 1d", &words->step})
      .Takes(Option{"--csv", "", "Comma-separated values", &words->csv})
      .Takes(
          Option{"--focus", "", "FOCUS 1.0, as CSV: a charge for each priced unit", &words->focus})
      .Says(
          "MEMORY is what processes used, RESERVED what their limits held. Costs appear if the\n"
          "operator has set [prices].\n\n"
          "Examples:\n"
          "  atoll usage --by label:team --since 7d\n"
          "  atoll usage --by sandbox --step 1d --csv")
      .Does([words, &settings] { return ShowUsage(settings, *words); });
}

}  // namespace atl::cli
