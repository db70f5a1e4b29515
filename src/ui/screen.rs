//! The whole terminal as one screen: the alternate screen in raw mode, which is given back on every way out.

use std::io::{self, IsTerminal as _, Stdout, Write as _};
use std::sync::Once;

use crossterm::cursor::{Hide, Show};
use crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use crossterm::terminal::{
    self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, style};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};

/// The use of the mouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mouse {
    /// It is left to the terminal, which marks text with it.
    Left,
    /// The terminal reports what it does.
    Reported,
}

/// The screen. Dropping it restores the terminal.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    area: Rect,
    mouse: Mouse,
}

impl Screen {
    /// Returns `true` if stdin and stdout are a terminal.
    #[must_use]
    pub(crate) fn is_there() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// Takes the terminal. `color` is the decision of the printer, which knows more than crossterm.
    ///
    /// # Errors
    ///
    /// Returns an error if the terminal can't be changed. It is then as it was.
    pub(crate) fn open(color: bool, mouse: Mouse) -> io::Result<Self> {
        style::force_color_output(color);
        restore_on_panic();
        let area = area()?;
        let screen = Self { terminal: terminal_of(area)?, area, mouse };
        // From here on, dropping the screen restores what was changed.
        take(mouse)?;
        Ok(screen)
    }

    /// Draws a frame. Only what differs from the frame before is written.
    ///
    /// # Errors
    ///
    /// Returns an error if the terminal can't be written.
    pub(crate) fn draw(&mut self, content: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        // ratatui's own resizing asks the terminal for its cursor, and the answer would race with the reading of keys.
        if area()? != self.area {
            self.redraw()?;
        }
        self.terminal.draw(content)?;
        Ok(())
    }

    /// Takes the terminal again after [`Self::leave`], or after something else has written to it.
    ///
    /// # Errors
    ///
    /// Returns an error if the terminal can't be changed.
    pub(crate) fn enter(&mut self) -> io::Result<()> {
        take(self.mouse)?;
        self.redraw()
    }

    /// Gives the terminal back to other programs.
    pub(crate) fn leave(&mut self) {
        restore();
    }

    fn redraw(&mut self) -> io::Result<()> {
        self.area = area()?;
        self.terminal = terminal_of(self.area)?;
        execute!(io::stdout(), Clear(ClearType::All))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn take(mouse: Mouse) -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, Hide, Clear(ClearType::All))?;
    if mouse == Mouse::Reported { execute!(io::stdout(), EnableMouseCapture) } else { Ok(()) }
}

fn restore() {
    // If the terminal is gone, there is nothing to restore.
    // Turning off what was not turned on does no harm.
    let _ = execute!(io::stdout(), DisableMouseCapture, Show, LeaveAlternateScreen);
    let _ = disable_raw_mode();
    let _ = io::stdout().flush();
}

fn area() -> io::Result<Rect> {
    let (width, height) = terminal::size()?;
    // A terminal may report a size of zero.
    Ok(Rect::new(0, 0, width.max(1), height.max(1)))
}

fn terminal_of(area: Rect) -> io::Result<Terminal<CrosstermBackend<Stdout>>> {
    let options = TerminalOptions { viewport: Viewport::Fixed(area) };
    Terminal::with_options(CrosstermBackend::new(io::stdout()), options)
}

/// Lets the message of a panic be written to the restored terminal. On the alternate screen it would be lost.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore();
            before(info);
        }));
    });
}
