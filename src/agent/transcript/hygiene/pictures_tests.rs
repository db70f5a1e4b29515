use super::*;
use crate::agent::transcript::EntryMetadata;
use crate::config::Api;
use crate::provider::{Message, Role, Route};

const LIMITS: PictureLimits = PictureLimits { side: 1200, bytes: 5 << 20 };

fn encoded(width: u32, height: u32) -> String {
    let picture = image::RgbImage::from_fn(width, height, |x, y| image::Rgb([x as u8, y as u8, 7]));
    let mut bytes = std::io::Cursor::new(Vec::new());
    picture.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    STANDARD.encode(bytes.into_inner())
}

fn target() -> Target {
    let model = "anthropic/claude-opus-4-5".parse().unwrap();
    Target::new(Route { model, api: Api::AnthropicMessages })
}

fn fit_content(content: Vec<Block>, target: &Target) -> Vec<Block> {
    let message = Arc::new(Message { role: Role::User, content });
    let mut entries = vec![Entry { message, about: Arc::new(EntryMetadata::default()) }];
    fit(&mut entries, target, &HygienePolicy::of(target), &mut RuleLog::default());
    entries[0].message.content.clone()
}

fn image(media_type: &str, data: &str) -> Block {
    Block::Image { media_type: media_type.to_owned(), data: data.to_owned() }
}

#[test]
fn a_fitting_picture_stays_and_its_media_type_is_corrected() {
    let data = encoded(30, 20);
    assert_eq!(fit_content(vec![image("image/png", &data)], &target()), [image("image/png", &data)]);
    assert_eq!(fit_content(vec![image("image/jpeg", &data)], &target()), [image("image/png", &data)]);
    let loose = format!("{}\n{}", &data[..10], data[10..].trim_end_matches('='));
    assert_eq!(fit_content(vec![image("image/png", &loose)], &target()), [image("image/png", &data)]);
}

#[test]
fn a_large_picture_is_scaled_once_and_keeps_its_place() {
    let target = target();
    let content: Arc<[Block]> =
        [Block::text("before"), image("image/png", &encoded(1300, 10)), Block::text("after")].into();
    let result = Block::ToolResult { call_id: "1".into(), name: "image".into(), content, is_error: false };
    let once = fit_content(vec![result.clone()], &target);
    let [Block::ToolResult { content, .. }] = &once[..] else { panic!("{once:?}") };
    let [Block::Text { .. }, Block::Image { media_type, data }, Block::Text { .. }] = &**content else {
        panic!()
    };
    assert_eq!(media_type, "image/jpeg");
    let PictureOutcome::Same(kind) = prepare_picture(data, LIMITS) else { panic!("{data}") };
    assert_eq!(kind, "image/jpeg");
    assert_eq!(lock(&target.pictures.0).looked_at.len(), 1);
    assert_eq!(fit_content(vec![result], &target), once);
    assert_eq!(lock(&target.pictures.0).looked_at.len(), 1, "it was not looked at again");
    let smaller = Target { longest_side: 300, ..target };
    let [Block::ToolResult { content, .. }] = &fit_content(once, &smaller)[..] else { panic!() };
    let Block::Image { data, .. } = &content[1] else { panic!() };
    let size = picture::sniff(&STANDARD.decode(data).unwrap()).unwrap().size;
    assert_eq!(size, Some((300, 2)));
}

#[test]
fn an_unusable_picture_is_replaced_by_a_note() {
    for (data, reason) in
        [("", "empty"), ("****", "Base64"), ("aGVsbG8=", "no PNG"), ("iVBORw0KGgo=", "damaged")]
    {
        let shown = fit_content(vec![image("image/png", data)], &target());
        let [Block::Text { text, .. }] = &shown[..] else { panic!("{data}") };
        assert!(text.starts_with("[picture omitted: ") && text.contains(reason), "{text}");
        assert_eq!(fit_content(shown.clone(), &target()), shown);
    }
    let blind = Target { images: false, ..target() };
    let shown = fit_content(vec![image("image/png", &encoded(3, 3))], &blind);
    assert_eq!(shown, [Block::text("[a picture (image/png); this model does not take pictures]")]);
}

#[test]
fn the_picture_cache_is_bounded() {
    let mut kept = CacheState::default();
    for n in 0..200u8 {
        let data = "x".repeat(1 << 20);
        kept.keep(([n; 32], LIMITS), Arc::new(PictureOutcome::Other { media_type: "image/jpeg", data }));
        assert!(kept.bytes <= MAX_CACHED_BYTES && kept.order.len() == kept.looked_at.len());
    }
    assert_eq!(kept.bytes, MAX_CACHED_BYTES);
    assert!(kept.looked_at.contains_key(&([199; 32], LIMITS)));
}
