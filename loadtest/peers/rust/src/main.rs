//! A bare handler in Rust: axum and librdkafka, one thread, acks=all, idempotent, linger 2 ms.
//!
//!     peer-rust BOOTSTRAP TOPIC KEY_POINTER PORT
//!
//! It answers as loadtest/yardstick.py does and checks nothing but that the key is there.

mod key;

use std::fmt::Write;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::Router;
use rdkafka::producer::{DeliveryFuture, FutureProducer, FutureRecord};
use rdkafka::ClientConfig;
use serde_json::value::RawValue;

struct Peer {
    producer: FutureProducer,
    topic: String,
    path: Vec<String>,
}

impl Peer {
    /// Gives the event to librdkafka; the future is its acknowledgement.
    fn send(&self, event: &[u8]) -> Result<DeliveryFuture, StatusCode> {
        let key = key::find(event, &self.path).ok_or(StatusCode::BAD_REQUEST)?;
        let record = FutureRecord::to(&self.topic).key(key.as_ref()).payload(event);
        let sent = self.producer.send_result(record);
        sent.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)
    }
}

/// Appends the outcome of one event once all replicas have it.
async fn outcome(sent: DeliveryFuture, text: &mut String) -> Result<(), StatusCode> {
    let Ok(Ok(delivery)) = sent.await else {
        return Err(StatusCode::BAD_GATEWAY);
    };
    let (partition, offset) = (delivery.partition, delivery.offset);
    let written = write!(
        text,
        r#"{{"outcome":"published","partition":{partition},"offset":{offset}}}"#
    );
    written.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

fn answer(text: String) -> Response {
    ([(CONTENT_TYPE, "application/json")], text).into_response()
}

async fn post_event(State(peer): State<Arc<Peer>>, body: Bytes) -> Result<Response, StatusCode> {
    let mut text = String::with_capacity(64);
    outcome(peer.send(&body)?, &mut text).await?;
    Ok(answer(text))
}

async fn post_batch(
    State(peer): State<Arc<Peer>>,
    head: HeaderMap,
    body: Bytes,
) -> Result<Response, StatusCode> {
    let sent: Vec<_> = if head.get(CONTENT_TYPE).is_some_and(|it| it == "application/x-ndjson") {
        let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| peer.send(line)).collect::<Result<_, _>>()?
    } else {
        let events: Vec<&RawValue> =
            serde_json::from_slice(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
        let events = events.iter().map(|event| event.get().as_bytes());
        events.map(|event| peer.send(event)).collect::<Result<_, _>>()?
    };
    let mut text = format!(r#"{{"summary":{{"published":{}}},"outcomes":["#, sent.len());
    for (index, one) in sent.into_iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        outcome(one, &mut text).await?;
    }
    text.push_str("]}");
    Ok(answer(text))
}

async fn serve(peer: Peer, port: u16) -> std::io::Result<()> {
    let routes = Router::new()
        .route("/events", post(post_event))
        .route("/batches", post(post_batch))
        .with_state(Arc::new(peer));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    axum::serve(listener, routes).await
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [bootstrap, topic, pointer, port] = arguments.as_slice() else {
        return Err("peer-rust BOOTSTRAP TOPIC KEY_POINTER PORT".into());
    };
    let producer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .set("linger.ms", "2")
        .create()?;
    let (topic, path) = (topic.clone(), key::path(pointer));
    let peer = Peer { producer, topic, path };
    let one_thread = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(one_thread.block_on(serve(peer, port.parse()?))?)
}
