use super::*;

/// Returns a picture of pseudo-random pixels, which compresses badly.
fn noise(width: u32, height: u32) -> RgbImage {
    let mut state = 1u32;
    RgbImage::from_fn(width, height, |_, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [red, green, blue, _] = state.to_be_bytes();
        image::Rgb([red, green, blue])
    })
}

fn encode(picture: &DynamicImage, format: image::ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

const ROOMY_LIMITS: PictureLimits = PictureLimits { side: 1200, bytes: 1 << 20 };

#[test]
fn a_picture_within_the_limits_is_unchanged() {
    let picture = DynamicImage::ImageRgb8(noise(30, 20));
    for format in
        [image::ImageFormat::Png, image::ImageFormat::Jpeg, image::ImageFormat::Gif, image::ImageFormat::WebP]
    {
        let bytes = encode(&picture, format);
        let FittedPicture::AsIs(found) = fit(&bytes, ROOMY_LIMITS).unwrap() else { panic!("{format:?}") };
        assert_eq!((found.media_type, found.size), (format.to_mime_type(), Some((30, 20))));
    }
}

#[test]
fn a_picture_above_the_side_limit_is_scaled_to_it() {
    for format in
        [image::ImageFormat::Png, image::ImageFormat::Jpeg, image::ImageFormat::Gif, image::ImageFormat::WebP]
    {
        let bytes = encode(&DynamicImage::ImageRgb8(noise(400, 100)), format);
        let FittedPicture::Jpeg { bytes, size } =
            fit(&bytes, PictureLimits { side: 200, bytes: 1 << 20 }).unwrap()
        else {
            panic!("{format:?}")
        };
        assert_eq!(size, (200, 50));
        let again = sniff::sniff(&bytes).unwrap();
        assert_eq!((again.media_type, again.size), ("image/jpeg", Some((200, 50))));
    }
}

#[test]
fn too_many_bytes_reduce_quality_before_size() {
    let bytes = encode(&DynamicImage::ImageRgb8(noise(1000, 900)), image::ImageFormat::Png);
    let of = |most| match fit(&bytes, PictureLimits { side: 1200, bytes: most }).unwrap() {
        FittedPicture::Jpeg { bytes, size } => {
            assert!(bytes.len() <= most);
            size
        }
        FittedPicture::AsIs(_) => panic!("{most}"),
    };
    assert_eq!(of(1_000_000), (1000, 900));
    assert_eq!(of(250_000), (800, 720));
    assert_eq!(fit(&bytes, PictureLimits { side: 1200, bytes: 1_000 }), Err(PictureError::NotSmallEnough));
}

#[test]
fn a_transparent_picture_gets_a_white_background() {
    let clear = image::RgbaImage::from_pixel(300, 300, image::Rgba([10, 20, 30, 0]));
    let bytes = encode(&DynamicImage::ImageRgba8(clear), image::ImageFormat::Png);
    let FittedPicture::Jpeg { bytes, .. } = fit(&bytes, PictureLimits { side: 100, bytes: 1 << 20 }).unwrap()
    else {
        panic!()
    };
    assert!(
        decode(decoder(&bytes).unwrap())
            .unwrap()
            .pixels()
            .all(|pixel| pixel.0.iter().all(|part| *part > 250))
    );
}

#[test]
fn a_header_with_too_many_pixels_or_a_false_size_is_refused() {
    // Headers without bodies: nothing is allocated for the size that they claim.
    let mut bomb = encode(&DynamicImage::ImageRgb8(noise(2, 2)), image::ImageFormat::Png);
    bomb[16..24].copy_from_slice(&[0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff]);
    assert_eq!(fit(&bomb, ROOMY_LIMITS), Err(PictureError::TooManyPixels(65_535, 65_535)));
    bomb[16..24].copy_from_slice(&[0, 0, 0x10, 0, 0, 0, 0x10, 0]);
    assert!(matches!(fit(&bomb, ROOMY_LIMITS), Err(PictureError::Undecodable(_))));
    bomb[16..24].fill(0);
    assert_eq!(fit(&bomb, ROOMY_LIMITS), Err(PictureError::Damaged("image/png")));
    assert_eq!(fit(b"<svg/>", ROOMY_LIMITS), Err(PictureError::Unknown));
    assert_eq!(
        fit(&vec![0; MAX_INPUT_BYTES + 1], ROOMY_LIMITS),
        Err(PictureError::TooLarge(MAX_INPUT_BYTES + 1))
    );
    let mut torn = encode(&DynamicImage::ImageRgb8(noise(400, 400)), image::ImageFormat::Png);
    torn.truncate(2_000);
    assert!(matches!(
        fit(&torn, PictureLimits { side: 100, bytes: 1 << 20 }),
        Err(PictureError::Undecodable(_))
    ));
}

#[test]
fn what_has_two_sizes_is_encoded_anew() {
    let jpeg = encode(&DynamicImage::ImageRgb8(noise(400, 100)), image::ImageFormat::Jpeg);
    // For the sniffer a restart marker has no body, so that it finds a small frame behind it. The decoder reads the
    // frame's marker as the length of a body, and skips that.
    let mut lie = b"\xff\xd8\xff\xd0\xff\xc0\0\x11\x08\0\x03\0\x02".to_vec();
    lie.resize(6 + 0xffc0 - 2, 0);
    lie.extend(&jpeg[2..]);
    assert_eq!(sniff::sniff(&lie).unwrap().size, Some((2, 3)));
    for (side, wanted) in [(200, (200, 50)), (1200, (400, 100))] {
        let FittedPicture::Jpeg { bytes, size } = fit(&lie, PictureLimits { side, bytes: 1 << 20 }).unwrap()
        else {
            panic!("{side}")
        };
        assert_eq!((size, sniff::sniff(&bytes).unwrap().size), (wanted, Some(wanted)));
    }
}

#[test]
fn a_picture_with_a_damaged_body_is_refused() {
    let picture = DynamicImage::ImageRgb8(noise(300, 200));
    for format in [image::ImageFormat::Png, image::ImageFormat::Gif, image::ImageFormat::WebP] {
        let bytes = encode(&picture, format);
        let cut = &bytes[..bytes.len() / 2];
        assert!(
            matches!(fit(cut, ROOMY_LIMITS), Err(PictureError::Undecodable(_))),
            "{format:?}: {:?}",
            fit(cut, ROOMY_LIMITS)
        );
    }
    let mut bytes = encode(&picture, image::ImageFormat::Png);
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].fill(0xa5);
    assert!(
        matches!(fit(&bytes, ROOMY_LIMITS), Err(PictureError::Undecodable(_))),
        "{:?}",
        fit(&bytes, ROOMY_LIMITS)
    );
}

#[test]
fn the_decoded_size_is_limited_in_bytes_not_only_pixels() {
    // This picture has few bytes and few pixels, but eight bytes for each pixel.
    let deep = DynamicImage::new_rgba16(3_600, 3_600);
    let bytes = encode(&deep, image::ImageFormat::Png);
    assert!(bytes.len() < 1 << 20, "{}", bytes.len());
    assert_eq!(fit(&bytes, ROOMY_LIMITS), Err(PictureError::TooManyPixels(3_600, 3_600)));
    let flat = encode(&DynamicImage::new_rgb8(3_600, 3_600), image::ImageFormat::Png);
    assert!(matches!(fit(&flat, ROOMY_LIMITS), Ok(FittedPicture::Jpeg { .. })));
}
