//! The routes of the service: one table, from which requests are dispatched and the OpenAPI description is made.

use serde_json::{Map, Value, json};

/// A route's action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Health,
    OpenApi,
    Metrics,
    PutFile,
    GetFile,
    DeleteFile,
    ListJobs,
    PutJob,
    GetJob,
    Status,
    Chunk,
    DeleteJob,
}

pub(crate) struct Route {
    pub(crate) verb: Verb,
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    /// Whether it is answered without a token.
    pub(crate) open: bool,
    summary: &'static str,
    /// The media type of what is sent, if anything is.
    takes: &'static str,
    /// The media type of a good answer.
    gives: &'static str,
    answers: &'static [u16],
}

const JSON: &str = "application/json";
const BYTES: &str = "application/octet-stream";
const TEXT: &str = "text/plain; version=0.0.4";

const fn route(
    verb: Verb,
    method: &'static str,
    path: &'static str,
    (takes, gives): (&'static str, &'static str),
    answers: &'static [u16],
    summary: &'static str,
) -> Route {
    let open = matches!(verb, Verb::Health | Verb::OpenApi);
    Route { verb, method, path, open, summary, takes, gives, answers }
}

const FILE: &str = "/v1/files/{digest}";
const JOB: &str = "/v1/jobs/{id}";

pub(crate) const ROUTES: [Route; 12] = [
    route(
        Verb::Health,
        "GET",
        "/healthz",
        ("", JSON),
        &[200, 503],
        "Whether the service takes work",
    ),
    route(Verb::OpenApi, "GET", "/openapi.json", ("", JSON), &[200], "This description"),
    route(Verb::Metrics, "GET", "/metrics", ("", TEXT), &[200, 401, 429], "Figures for Prometheus"),
    route(
        Verb::PutFile,
        "PUT",
        FILE,
        (BYTES, ""),
        &[200, 201, 400, 401, 408, 411, 413, 422, 429, 507],
        "Store a program, evaluation keys or ciphertexts under the BLAKE3 digest of the file. Files with secrets get 422",
    ),
    route(
        Verb::GetFile,
        "GET",
        FILE,
        ("", BYTES),
        &[200, 401, 404, 413, 429],
        "A file that was stored",
    ),
    route(
        Verb::DeleteFile,
        "DELETE",
        FILE,
        ("", ""),
        &[204, 401, 404, 429, 507],
        "Remove a file. Jobs that were made with it keep theirs",
    ),
    route(Verb::ListJobs, "GET", "/v1/jobs", ("", JSON), &[200, 401, 429], "The jobs of this name"),
    route(
        Verb::PutJob,
        "PUT",
        JOB,
        (JSON, JSON),
        &[200, 201, 400, 401, 403, 408, 409, 411, 413, 422, 429, 503, 507],
        "Make a job, named after the BLAKE3 digest of the request. 409 lists the files that are missing. The job takes its inputs: they are no files of the store any more",
    ),
    route(Verb::GetJob, "GET", JOB, ("", JSON), &[200, 401, 404, 429], "The facts of a job"),
    route(
        Verb::Status,
        "GET",
        "/v1/jobs/{id}/status",
        ("", JSON),
        &[200, 401, 404, 429, 507],
        "The state of a job, as `becalm job status --json` tells it",
    ),
    route(
        Verb::Chunk,
        "GET",
        "/v1/jobs/{id}/chunks/{chunk}",
        ("", BYTES),
        &[200, 204, 401, 404, 422, 429, 503, 507],
        "The files of the results of a chunk, each after its length in 8 bytes, little endian. `?wait=20` waits so many seconds for them, at most 60; 204 says that they are not there yet",
    ),
    route(
        Verb::DeleteJob,
        "DELETE",
        JOB,
        ("", ""),
        &[204, 401, 404, 429, 507],
        "Stop and remove a job",
    ),
];

/// The route of a request, and the values of its braces.
///
/// # Errors
/// 404 for another path, and 405 for another method.
pub(crate) fn find(method: &str, path: &str) -> Result<(&'static Route, Vec<String>), u16> {
    let mut known = false;
    for route in &ROUTES {
        let Some(values) = values(route.path, path) else { continue };
        if route.method == method {
            return Ok((route, values));
        }
        known = true;
    }
    Err(if known { 405 } else { 404 })
}

fn values(template: &str, path: &str) -> Option<Vec<String>> {
    let (wanted, got): (Vec<_>, Vec<_>) =
        (template.split('/').collect(), path.split('/').collect());
    if wanted.len() != got.len() {
        return None;
    }
    let mut found = vec![];
    for (wanted, got) in wanted.into_iter().zip(got) {
        if wanted.starts_with('{') && !got.is_empty() {
            found.push(got.to_string());
        } else if wanted != got {
            return None;
        }
    }
    Some(found)
}

/// The OpenAPI description of the service.
pub fn openapi() -> Value {
    let mut paths = Map::new();
    for route in &ROUTES {
        let names =
            route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let mut parameters: Vec<Value> = names
            .map(|name| {
                let schema = match name {
                    "chunk" => json!({ "type": "integer", "minimum": 0 }),
                    _ => json!({ "type": "string", "pattern": "^[0-9a-f]{64}$" }),
                };
                json!({ "name": name, "in": "path", "required": true, "schema": schema })
            })
            .collect();
        if route.verb == Verb::Chunk {
            let schema = json!({ "type": "number", "minimum": 0, "maximum": 60 });
            parameters.push(json!({ "name": "wait", "in": "query", "schema": schema }));
        }
        let mut operation = json!({
            "operationId": format!("{:?}", route.verb),
            "summary": route.summary,
            "parameters": parameters,
            "responses": responses(route),
        });
        if !route.takes.is_empty() {
            let schema = match route.takes {
                JSON => json!({ "$ref": "#/components/schemas/Request" }),
                _ => json!({}),
            };
            operation["requestBody"] =
                json!({ "required": true, "content": { route.takes: { "schema": schema } } });
        }
        if route.open {
            operation["security"] = json!([]);
        }
        let place = paths.entry(route.path).or_insert_with(|| json!({}));
        place[route.method.to_lowercase()] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "becalm",
            "description": "Jobs of fully homomorphic encryption. A name is a BLAKE3 digest, so every request may be sent again.",
            "version": env!("CARGO_PKG_VERSION"),
        },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": { "Request": request(), "Fault": fault() },
        },
    })
}

fn responses(route: &Route) -> Value {
    let mut found = Map::new();
    for status in route.answers {
        let text = hyper::StatusCode::from_u16(*status).ok().and_then(|s| s.canonical_reason());
        let mut answer = json!({ "description": text.unwrap_or("") });
        let media = if *status == 200 || *status == 201 { route.gives } else { JSON };
        if *status != 204 && !media.is_empty() {
            let schema = match status {
                400.. => json!({ "$ref": "#/components/schemas/Fault" }),
                _ => json!({}),
            };
            answer["content"] = json!({ media: { "schema": schema } });
        }
        found.insert(status.to_string(), answer);
    }
    found.into()
}

fn digest() -> Value {
    json!({ "type": "string", "pattern": "^[0-9a-f]{64}$" })
}

fn request() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["program", "keys", "inputs"],
        "properties": {
            "program": digest(),
            "keys": digest(),
            "slot_keys": { "type": "array", "items": digest(), "maxItems": 256 },
            "inputs": { "type": "array", "items": digest(), "minItems": 1, "maxItems": 200000 },
            "chunk": { "type": ["integer", "null"], "minimum": 1 },
            "verify": { "type": "number", "minimum": 0, "maximum": 1 },
            "note": { "type": "string", "maxLength": 65536 },
        },
    })
}

fn fault() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "type": "object",
        "required": ["kind", "wanted", "got", "remedy"],
        "properties": {
            "kind": text, "wanted": text, "got": text, "remedy": text,
            "missing": { "type": "array", "items": digest() },
        },
    })
}
