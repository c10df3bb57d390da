"""A receiver of OTLP that keeps what it is sent, and refuses what breaks a rule of profiles.proto at ac2c4b5. protoc
decodes; names, indices and totals are checked here.
"""

from stand_in import MAX_FRAMES, Refused, StandIn, check_known, decode, number, numbers, require

TABLES = ("mapping_table", "location_table", "function_table", "attribute_table", "stack_table")
# "SHOULD be used for link_table[0]".
NO_LINK = {"trace_id": ["\0" * 16], "span_id": ["\0" * 8]}
LABELS = {"service.name": "service_name", "host.name": "host", "container.id": "container", "process.owner": "user",
          "process.runtime.name": "runtime", "k8s.pod.name": "pod", "k8s.namespace.name": "namespace"}
# google.rpc.Status: code 3, message "refused".
STATUS = "\x08\x03\x12\x07refused"


def in_table(dictionary: dict, table: str, indices: list, least: int) -> None:
    require(all(least <= one < len(dictionary[table]) for one in indices), f"index into {table}")


def check_dictionary(dictionary: dict) -> None:
    for table in TABLES:
        require(bool(dictionary.get(table)) and dictionary[table][0] == {}, f"{table}[0] is not the zero value")
    require(dictionary.get("link_table") == [NO_LINK], "link_table")
    texts = dictionary.get("string_table", [])
    require(bool(texts) and texts[0] == "", "string_table[0]")
    require(len(set(texts)) == len(texts), "a text is there twice")
    for mapping in dictionary["mapping_table"]:
        in_table(dictionary, "string_table", numbers(mapping, "filename_strindex"), 0)
        in_table(dictionary, "attribute_table", numbers(mapping, "attribute_indices"), 1)
    for location in dictionary["location_table"][1:]:
        in_table(dictionary, "mapping_table", numbers(location, "mapping_index"), 1)
        require(bool(location.get("lines")), "a location has no line")
        for line in location["lines"]:
            in_table(dictionary, "function_table", [number(line, "function_index")], 1)
    for function in dictionary["function_table"][1:]:
        for field in ("name_strindex", "system_name_strindex", "filename_strindex"):
            in_table(dictionary, "string_table", numbers(function, field), 1)
    for attribute in dictionary["attribute_table"][1:]:
        in_table(dictionary, "string_table", [number(attribute, "key_strindex")], 1)
        require("string_value" in attribute["value"][0], "an attribute without a text")
    for stack in dictionary["stack_table"]:
        in_table(dictionary, "location_table", numbers(stack, "location_indices"), 1)
        # A Pyroscope may be the receiver.
        require(len(numbers(stack, "location_indices")) <= MAX_FRAMES, "frames of a stack")


def check_samples(dictionary: dict, profile: dict) -> None:
    seen = set()
    for sample in profile["samples"]:
        in_table(dictionary, "stack_table", numbers(sample, "stack_index"), 1)
        in_table(dictionary, "attribute_table", numbers(sample, "attribute_indices"), 1)
        require("link_index" not in sample and "timestamps_unix_nano" not in sample, "fields of a sample")
        require(len(numbers(sample, "values")) == 1, "number of values")
        require(number(sample, "values") > 0, "a value that is not above 0")
        key = (number(sample, "stack_index"), tuple(numbers(sample, "attribute_indices")))
        require(key not in seen, "samples of one stack and attributes are not one")
        seen.add(key)


def resource_labels(resource: dict) -> dict:
    labels = {}
    for pair in resource.get("attributes", []):
        key, = pair["key"]
        require(key not in labels, f"attribute {key} is there twice")
        labels[key] = pair["value"][0]["string_value"][0]
    require(labels.get("service.name", "") != "", "service.name")
    require("__name__" not in labels, "a label of another engine")
    return {LABELS.get(key, key): value for key, value in labels.items()}


def as_pprof(dictionary: dict, profile: dict) -> dict:
    """Samples and CPU time, as Pyroscope's converter makes them: the period times the samples."""
    texts = dictionary["string_table"]
    type_of = profile["sample_type"][0]
    types = (texts[number(type_of, "type_strindex")], texts[number(type_of, "unit_strindex")])
    require(types == ("samples", "count"), f"sample type {types}")
    period_type = profile["period_type"][0]
    require(texts[number(period_type, "type_strindex")] == "cpu" and
            texts[number(period_type, "unit_strindex")] == "nanoseconds", "period type")
    period = number(profile, "period")
    samples = [{"value": [number(one, "values"), number(one, "values") * period]} for one in profile["samples"]]
    # The types that were required above.
    return {"string_table": ["", "samples", "count", "cpu", "nanoseconds"], "period_type": [{"type": ["3"], "unit": ["4"]}],
            "sample_type": [{"type": ["1"], "unit": ["2"]}, {"type": ["3"], "unit": ["4"]}],
            "time_nanos": profile["time_unix_nano"], "duration_nanos": profile["duration_nano"], "period": [str(period)],
            "sample": samples}


class OtlpStandIn(StandIn):
    """`rejects` is answered once with a partial success."""

    content_type = "application/x-protobuf"
    error_type = "application/x-protobuf"

    def __init__(self, port: int = 0, tenant: str = "", authorization: str = ""):
        self.rejects = False
        super().__init__(port, tenant, authorization)

    def take(self, path: str, headers, body: bytes) -> tuple:
        if self.status is not None:
            return self.status, STATUS
        if self.rejects:
            self.rejects = False
            return 200, "\x0a\x09\x08\x01\x12\x05wrong"
        try:
            self.keep(path, headers, body)
        except (Refused, ValueError, KeyError, IndexError, OSError) as problem:
            self.refuse(problem)
            return 400, STATUS
        return 200, ""

    def keep(self, path: str, headers, body: bytes) -> None:
        require(path == "/v1development/profiles", f"path {path}")
        require(headers["Content-Type"] == "application/x-protobuf", "content type")
        require(headers["Content-Encoding"] == "gzip", "content encoding")
        self.check_headers(headers)
        request = decode("otlp.ExportProfilesServiceRequest", "otlp.proto", body)
        check_known(request)
        dictionary, = request["dictionary"]
        check_dictionary(dictionary)
        resource, = request["resource_profiles"]
        labels = resource_labels(resource["resource"][0])
        scope, = resource["scope_profiles"]
        require(scope["scope"][0]["name"] == ["profd"], "scope")
        profile, = scope["profiles"]
        check_samples(dictionary, profile)
        converted = as_pprof(dictionary, profile)
        self.check_time(labels, converted)
        self.received.append(({**labels, "__name__": "process_cpu"}, converted))
